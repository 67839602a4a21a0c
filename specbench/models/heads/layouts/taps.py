"""Which hidden states of the target an EAGLE-3 head reads (ALGORITHMS 3.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.heads.layouts.llama_config import said, wrong

Place = tuple[int, str]
"""Layer and side, as in ``decoding.protocols.Tap``."""

ENTERING, LEAVING = "entering", "leaving"
KEY = "eagle_aux_hidden_state_layer_ids"


def default_places(layers: int) -> tuple[Place, ...]:
    """Where a checkpoint does not say: streams entering layers 2, L // 2 and L - 3.

    Raises:
        PrerequisiteError: too few layers to have them.
    """
    if layers < 4:
        raise PrerequisiteError(
            f"the target has {layers} layers; an EAGLE-3 head reads those entering layers 2, "
            "half-way, and 3 from the end",
            "use a target with at least 4 layers, or a head that names its layers",
        )
    return tuple((layer, ENTERING) for layer in (2, layers // 2, layers - 3))


def layer_ids(config: Mapping[str, Any], where: str) -> list[int] | None:
    """Layer numbers that a configuration names, at its top or under ``eagle_config``.

    Raises:
        PrerequisiteError: no list of whole numbers.
    """
    nested = said(config, "eagle_config", Mapping, where) or {}
    lists = [said(place, KEY, list, where) for place in (config, nested)]
    found = next((ids for ids in lists if ids), None)
    for number in found or ():
        if isinstance(number, bool) or not isinstance(number, int):
            raise wrong(KEY, found, where, "whole numbers")
    return found


def convention(ids: Sequence[int], *, speculators: bool) -> tuple[str, str]:
    """Which side the numbers mean, and the note where that was a choice.

    speculators and vLLM count streams that enter a layer. SpecForge counts streams that leave one,
    but files with vLLM's numbers carry the same names. SGLang tells them apart by the first number
    (its pull request 25454): 1 is the stream leaving layer 1, since nobody trains on less.
    """
    if speculators:
        note = ""
        if ids[0] == 1:
            note = (
                f"layers {list(ids)} start with 1, as SpecForge counts streams leaving a layer; "
                "taken as entering, as speculators and vLLM do"
            )
        return ENTERING, note
    side = LEAVING if ids[0] == 1 else ENTERING
    return side, (
        f"the file does not say which side of layers {list(ids)} is meant; taken as {side} them "
        f"because the first is {'' if ids[0] == 1 else 'not '}1, as SGLang does"
    )


def places_of(ids: Sequence[int], side: str, layers: int | None) -> tuple[Place, ...]:
    """Places for numbers of one convention; the stream entering layer L leaves layer L - 1.

    Args:
        ids: layer numbers.
        side: entering or leaving.
        layers: L of the target; None where it is not known.

    Raises:
        PrerequisiteError: a layer that the target does not have.
    """
    last = None if layers is None else (layers if side == ENTERING else layers - 1)
    for number in ids:
        if number < 0 or (last is not None and number > last):
            raise PrerequisiteError(
                f"the head reads the stream {side} layer {number}, the target has layers "
                f"0 to {'?' if layers is None else layers - 1}",
                "use the target that the head was trained for",
            )
    behind_all = None if side == LEAVING else layers
    return tuple((n - 1, LEAVING) if n == behind_all else (n, side) for n in ids)

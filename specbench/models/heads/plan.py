"""How a checkpoint's tensors become a head: decided from names and shapes, before weights are read.

Inspection stops here; ``read`` goes on. A plan is data, so that both say the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.heads.files import Checkpoint
from specbench.models.heads.layouts.taps import Place

_PROJECTIONS = ("head.weight", "projection.weight")
"""How canonical names of output projections end."""

PLAIN_TYPES = ("F32", "F16", "BF16", "F64")
"""Stored types that are weights as they stand."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A head to be read.

    Attributes:
        family, layout: as ``sniff.Kind``.
        fields: of the family's configuration, without taps and target.
        places: hidden states of the target; None where they follow from a target that is not known.
        sources: canonical name -> stored name.
        scales: stored name -> stored name of its dequantisation scales.
        offsets: stored name of the map from draft ids to target ids as offsets (``d2t``).
        membership: stored name of the mask of target ids that are drafted (``t2d``).
        ids: stored name of the map as target ids (``token_map``).
        rows_of_map: canonical names of projections over the whole vocabulary, of which only the
            rows that ``ids`` names are kept.
        layer_ids: numbers of the target's layers as the file names them.
        block: rows and columns that share a scale.
        oddities: see ``HeadCheckpoint``.
    """

    family: str
    layout: str
    fields: Mapping[str, Any]
    places: tuple[Place, ...] | None
    sources: Mapping[str, str]
    scales: Mapping[str, str] = field(default_factory=dict)
    offsets: str | None = None
    membership: str | None = None
    ids: str | None = None
    rows_of_map: tuple[str, ...] = ()
    layer_ids: tuple[int, ...] = ()
    block: tuple[int, int] = (128, 128)
    oddities: tuple[str, ...] = ()

    @property
    def projection(self) -> str:
        """Whose the output projection is: ``own``, the ``target``'s, or its ``rows`` of the map."""
        if any(name.endswith(_PROJECTIONS) for name in self.sources):
            return "own"
        return "target" if self.offsets is None and self.ids is None else "rows"


IGNORED = ""
"""What a renaming returns for tensors that carry nothing, such as tables of angles."""

_CARRIES_NOTHING = re.compile(
    r"(.*\.)?rotary_emb\.(inv_freq|cos_cached|sin_cached)|verifier_(lm_head|norm)\.weight"
)
_REASONS = [
    (r"self_attn\.[qk]_norm\.", "norms of queries and keys are not run natively"),
    (
        r"(embed|embedding|hidden|lm_head|pre_lm_head)_layernorm\.",
        "the variant with extra norms (HASS, TTT) is not run natively",
    ),
    (r"additional_layers\.", "SGLang's extra layers are not run natively"),
    (r"mlp\.experts\.", "heads with experts are not run natively"),
    (r"self_attn\.(q_a|kv_a|kv_b|q_b)", "heads with latent attention are not run natively"),
    (
        r"\.(qweight|qzeros|g_idx|scales|weight_packed|weight_scale)",
        "quantised heads of this kind are not read",
    ),
]


def claim(
    checkpoint: Checkpoint, names: list[str], rename: Callable[[str], str | None]
) -> dict[str, str]:
    """Give every tensor its place: canonical name -> stored name.

    Args:
        checkpoint: for messages.
        names: stored names that belong to the head.
        rename: canonical name of a stored one, ``IGNORED``, or None for an unknown tensor.

    Raises:
        PrerequisiteError: a tensor without a place, or two for one place.
    """
    sources: dict[str, str] = {}
    for name in names:
        ours = IGNORED if _CARRIES_NOTHING.fullmatch(name) else rename(name)
        if ours is None:
            raise PrerequisiteError(
                f"{checkpoint.path}: tensor {name} of shape {list(checkpoint.shape(name))} "
                f"{_reason(name)}",
                "a head is read whole or not at all; run it on a server, or tell its authors",
            )
        if ours in sources:
            raise PrerequisiteError(
                f"{checkpoint.path}: tensors {sources[ours]} and {name} are the same one",
                "keep one of them",
            )
        if ours != IGNORED:
            sources[ours] = name
    return sources


def require(checkpoint: Checkpoint, sources: Mapping[str, str], *names: str) -> None:
    """Raise PrerequisiteError for tensors that every head of its kind has."""
    if missing := [name for name in names if name not in sources]:
        raise PrerequisiteError(
            f"{checkpoint.path} lacks {len(missing)} tensors, first {missing[0]}",
            "fetch or copy the checkpoint again",
        )


def require_matrices(checkpoint: Checkpoint, sources: Mapping[str, str]) -> None:
    """Raise PrerequisiteError for weights that are no matrices; only those of norms are not."""
    for ours, stored in sources.items():
        if ours.endswith(".weight") and "norm" not in ours and len(checkpoint.shape(stored)) != 2:
            raise PrerequisiteError(
                f"{checkpoint.path}: tensor {stored} has shape {list(checkpoint.shape(stored))}, "
                "expected a matrix",
                "fetch or copy the checkpoint again",
            )


def compare(
    checkpoint: Checkpoint, sources: Mapping[str, str], wanted: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise PrerequisiteError for the first tensor that does not fit, and say how many there are.

    Args:
        checkpoint: where they are stored.
        sources: canonical name -> stored name.
        wanted: canonical name -> shape of every tensor that the head has.
    """
    shapes = {name: checkpoint.shape(stored) for name, stored in sources.items()}
    faults = [
        f"{n} is missing, wanted {list(shape)}" for n, shape in wanted.items() if n not in shapes
    ]
    faults += [
        f"{sources[name]} is {list(shape)}, wanted {list(wanted[name])}"
        for name, shape in shapes.items()
        if name in wanted and shape != wanted[name]
    ]
    faults += [
        f"{sources[name]} of {list(shape)} has no place in this head"
        for name, shape in shapes.items()
        if name not in wanted
    ]
    if faults:
        raise PrerequisiteError(
            f"{checkpoint.path}: {len(faults)} of its tensors do not fit; {faults[0]}",
            "fetch or copy the checkpoint again",
        )


def require_plain(checkpoint: Checkpoint, names: list[str]) -> None:
    """Raise PrerequisiteError for weights whose stored type is not a plain float."""
    for name in names:
        if (dtype := checkpoint.stored(name).dtype) not in PLAIN_TYPES:
            raise PrerequisiteError(
                f"{checkpoint.path}: tensor {name} is stored as {dtype}",
                "weights quantised in this way are not read; use the unquantised ones",
            )


def _reason(name: str) -> str:
    why = next((text for pattern, text in _REASONS if re.search(pattern, name)), None)
    return f"has no place: {why}" if why else "is not known in such a head"

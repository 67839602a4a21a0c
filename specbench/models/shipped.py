"""The heads that ship with specbench as a list, from their headers and cards; without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.folder import read_json
from specbench.models.heads.describe import describe_heads
from specbench.models.heads.files import open_checkpoint
from specbench.models.heads.made_for import CARD, made_for
from specbench.models.zoo import PREFIX, shipped_folder, zoo_names


@dataclass(frozen=True, slots=True)
class Shipped:
    """One of them.

    Attributes:
        name: to be written as ``model``.
        family: as ``models inspect`` says it; ``draft_model`` for a whole model.
        layout: as ``models inspect`` says it; of a whole model its ``model_type``.
        target: what it was made for; None where its card does not say.
        size_bytes: of its weight files.
        accept_length: suite -> accept length, as its card says; None where it does not.
        problem: why it cannot be read; None if it can.
    """

    name: str
    family: str
    layout: str
    target: str | None
    size_bytes: int
    accept_length: Mapping[str, float] | None
    problem: str | None


def shipped(root: Path | None = None) -> list[Shipped]:
    """All of them, sorted by name.

    Args:
        root: folder of heads; None for that of this installation.
    """
    names = [PREFIX + name for name in zoo_names(root)]
    return [_read(name, shipped_folder(name, root)) for name in names]


def _read(name: str, folder: Path) -> Shipped:
    try:
        checkpoint = open_checkpoint(folder)
        heads = describe_heads(checkpoint, None)
        card, target = read_json(folder / CARD), made_for(folder)
    except PrerequisiteError as error:
        return Shipped(name, "", "", None, 0, None, error.message)
    if heads.native:
        (first, *_) = heads.native
        family, layout, problem = first.family, first.layout, first.problem
    else:
        family, layout, problem = "draft_model", str(checkpoint.config.get("model_type")), None
    return Shipped(
        name=name,
        family=family,
        layout=layout,
        target=None if target is None else target.name,
        size_bytes=sum(file.stat().st_size for file in set(checkpoint.files.values())),
        accept_length=_accept_length(card),
        problem=problem,
    )


def _accept_length(card: Mapping[str, Any]) -> dict[str, float] | None:
    suites = card.get("suites")
    if not isinstance(suites, Mapping):
        return None
    return {
        suite: float(found["accept_length"])
        for suite, found in suites.items()
        if isinstance(found, Mapping) and isinstance(found.get("accept_length"), int | float)
    }

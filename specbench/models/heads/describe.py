"""What the heads in a checkpoint folder are, from headers alone and without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.heads.files import Checkpoint
from specbench.models.heads.foreign import Foreign
from specbench.models.heads.plan import Plan
from specbench.models.heads.planning import DRAFTERS, PLANNERS
from specbench.models.heads.sniff import Contents, Kind, sniff
from specbench.models.heads.target_facts import Target


@dataclass(frozen=True, slots=True)
class HeadDescription:
    """One head.

    Attributes:
        family, layout: as ``HeadCheckpoint``.
        drafters: names to run it with.
        fields: its configuration, as far as the files say it.
        taps: hidden states of the target that it reads, in words.
        tensors, parameters, size_bytes: counts; bytes as stored.
        oddities: what was decided without the file saying so.
        problem: why it cannot be read; None if it can.
    """

    family: str
    layout: str
    drafters: tuple[str, ...]
    fields: Mapping[str, Any]
    taps: tuple[str, ...]
    tensors: int
    parameters: int
    size_bytes: int
    oddities: tuple[str, ...]
    problem: str | None


@dataclass(frozen=True, slots=True)
class Heads:
    """What drafting heads a folder holds.

    Attributes:
        contents: ``model``, ``head``, or ``model with a head``.
        native: those that run here.
        foreign: what runs on a server only.
    """

    contents: str
    native: tuple[HeadDescription, ...]
    foreign: Foreign | None


def describe_heads(checkpoint: Checkpoint, target: Target | None) -> Heads:
    """Describe the heads of a checkpoint.

    Args:
        checkpoint: where to look.
        target: what they should fit; None checks nothing.
    """
    contents = sniff(checkpoint)
    heads = contents.heads if contents.foreign is None else ()
    native = tuple(_described(checkpoint, kind, target) for kind in heads)
    return Heads(_in_words(contents), native, contents.foreign)


def _in_words(contents: Contents) -> str:
    if not contents.model:
        return "head"
    return "model with a head" if contents.heads or contents.foreign else "model"


def _described(checkpoint: Checkpoint, kind: Kind, target: Target | None) -> HeadDescription:
    problem = None
    plan = Plan(kind.family, kind.layout, {}, (), {})
    try:
        plan = PLANNERS[kind.family](checkpoint, kind.layout, target)
    except (PrerequisiteError, UsageError) as error:
        problem = error.message
    stored = [checkpoint.stored(name) for name in plan.sources.values()]
    taps = _taps(plan)
    return HeadDescription(
        family=kind.family,
        layout=kind.layout,
        drafters=tuple(DRAFTERS[kind.family]),
        fields=plan.fields,
        taps=taps,
        tensors=len(stored),
        parameters=sum(prod(s.shape) for s in stored),
        size_bytes=sum(s.size for s in stored),
        oddities=plan.oddities,
        problem=problem,
    )


def _taps(plan: Plan) -> tuple[str, ...]:
    if plan.places is None:
        return ("entering 2", "entering L // 2", "entering L - 3 of L layers")
    return tuple("final" if side == "final" else f"{side} {n}" for n, side in plan.places)

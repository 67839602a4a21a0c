"""What the heads in a checkpoint folder are, from headers alone and without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.heads.files import Checkpoint
from specbench.models.heads.foreign import Foreign
from specbench.models.heads.plan import Plan
from specbench.models.heads.planning import DRAFTERS, PLANNERS
from specbench.models.heads.sniff import Contents, Kind, sniff
from specbench.models.heads.stored import Stored
from specbench.models.heads.table import BIGRAM, LAYOUT, NEXT, table_facts
from specbench.models.heads.target_facts import Target

BIGRAM_TABLE = "bigram table"
"""``Heads.contents`` of a folder that holds one."""


@dataclass(frozen=True, slots=True)
class HeadDescription:
    """One head, or a bigram table.

    Attributes:
        family, layout: as ``HeadCheckpoint``; ``bigram`` and ``table`` for a table.
        drafters: names to run it with; none where only a server does.
        fields: its configuration, as far as the files say it.
        projection: whose the output projection is, as ``Plan.projection``.
        taps: hidden states of the target that it reads, in words.
        tensors, parameters, size_bytes: counts; bytes as stored.
        oddities: what was decided without the file saying so.
        problem: why it cannot be read; None if it can.
    """

    family: str
    layout: str
    drafters: tuple[str, ...]
    fields: Mapping[str, Any]
    projection: str
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
        contents: ``model``, ``head``, ``model with a head``, or ``bigram table``.
        native: those that run here.
        foreign: what runs on a server only.
        elsewhere: heads of the foreign kind whose tensors are known all the same.
    """

    contents: str
    native: tuple[HeadDescription, ...]
    foreign: Foreign | None
    elsewhere: tuple[HeadDescription, ...] = ()

    @property
    def model(self) -> bool:
        """Whether there is a whole model."""
        return self.contents.startswith("model")


def describe_heads(checkpoint: Checkpoint, target: Target | None) -> Heads:
    """Describe the heads of a checkpoint.

    Args:
        checkpoint: where to look.
        target: what those that run here should fit; None checks nothing.
    """
    contents = sniff(checkpoint)
    words = _in_words(contents)
    if contents.table:
        return Heads(words, (_table(checkpoint, target),), None)
    if contents.foreign is not None:
        read = tuple(_described(checkpoint, kind, None, ()) for kind in contents.heads)
        return Heads(words, (), contents.foreign, read)
    native = tuple(
        _described(checkpoint, kind, target, DRAFTERS[kind.family]) for kind in contents.heads
    )
    return Heads(words, native, None)


def _in_words(contents: Contents) -> str:
    if contents.table:
        return BIGRAM_TABLE
    if not contents.model:
        return "head"
    return "model with a head" if contents.heads or contents.foreign else "model"


def _described(
    checkpoint: Checkpoint, kind: Kind, target: Target | None, drafters: Sequence[str]
) -> HeadDescription:
    problem = None
    plan = Plan(kind.family, kind.layout, {}, (), {})
    try:
        plan = PLANNERS[kind.family](checkpoint, kind.layout, target)
    except (PrerequisiteError, UsageError) as error:
        problem = error.message
    stored = [checkpoint.stored(name) for name in plan.sources.values()]
    return HeadDescription(
        family=kind.family,
        layout=kind.layout,
        drafters=tuple(drafters),
        fields=plan.fields,
        projection=plan.projection,
        taps=_taps(plan),
        **_sizes(stored),
        oddities=plan.oddities,
        problem=problem,
    )


def _table(checkpoint: Checkpoint, target: Target | None) -> HeadDescription:
    facts, problem = {}, None
    try:
        facts = table_facts(checkpoint, None if target is None else target.vocabulary)
    except PrerequisiteError as error:
        problem = error.message
    stored = [checkpoint.stored(NEXT)] if NEXT in checkpoint else []
    return HeadDescription(
        family=BIGRAM,
        layout=LAYOUT,
        drafters=(BIGRAM,),
        fields=facts,
        projection="",
        taps=(),
        **_sizes(stored),
        oddities=(),
        problem=problem,
    )


def _sizes(stored: Sequence[Stored]) -> dict[str, int]:
    return {
        "tensors": len(stored),
        "parameters": sum(prod(s.shape) for s in stored),
        "size_bytes": sum(s.size for s in stored),
    }


def _taps(plan: Plan) -> tuple[str, ...]:
    if plan.places is None:
        return ("entering 2", "entering L // 2", "entering L - 3 of L layers")
    return tuple("final" if side == "final" else f"{side} {n}" for n, side in plan.places)

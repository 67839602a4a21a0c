"""From a checkpoint folder to the plan of the head that is asked for, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from specbench.errors import UsageError
from specbench.models.heads.files import Checkpoint
from specbench.models.heads.foreign import Foreign
from specbench.models.heads.layouts.eagle import plan_eagle1, plan_eagle3
from specbench.models.heads.layouts.medusa import plan_medusa
from specbench.models.heads.layouts.mtp import plan_mtp
from specbench.models.heads.plan import Plan
from specbench.models.heads.sniff import Kind, sniff
from specbench.models.heads.table import BIGRAM
from specbench.models.heads.target_facts import Target

Planner = Callable[[Checkpoint, str, Target | None], Plan]

PLANNERS: Mapping[str, Planner] = {
    "eagle1": plan_eagle1,
    "eagle3": plan_eagle3,
    "medusa": plan_medusa,
    "mtp": plan_mtp,
}

DRAFTERS: Mapping[str, Sequence[str]] = {
    "eagle1": ("eagle1", "eagle2"),
    "eagle3": ("eagle3",),
    "medusa": ("medusa", "blockwise"),
    "mtp": ("mtp",),
}
"""Family -> drafters that run it."""


def plan_head(
    checkpoint: Checkpoint, families: Sequence[str], target: Target | None, arm: str = ""
) -> Plan:
    """The plan of the first head of a wanted family.

    Args:
        checkpoint: where to look.
        families: wanted, of ``configs.FAMILIES``.
        target: what the head must fit.
        arm: for messages.

    Raises:
        UsageError: no such head in the folder, or one that only a server runs; says what is there.
        PrerequisiteError: tensors that are unknown, missing or misshapen, or another target's.
    """
    contents = sniff(checkpoint)
    start = f"arm {arm}: " if arm else ""
    wanted = " or ".join(families)
    # before it is planned: whether it fits the target does not matter
    if contents.foreign is not None:
        raise UsageError(
            f"{start}{checkpoint.path} holds {contents.foreign.what}, not run natively",
            runs_elsewhere(contents.foreign),
        )
    if contents.table:
        raise UsageError(
            f"{start}{checkpoint.path} holds a bigram table, not {wanted}",
            f'set drafter = "{BIGRAM}"',
        )
    for kind in contents.heads:
        if kind.family in families:
            return PLANNERS[kind.family](checkpoint, kind.layout, target)
    if contents.heads:
        raise UsageError(
            f"{start}{checkpoint.path} holds {described(contents.heads[0])}, not {wanted}",
            f"set drafter = {load_as(contents.heads[0])}",
        )
    raise UsageError(
        f"{start}{checkpoint.path} holds no head of family {wanted}",
        "name a head's folder or hub id as model; see: specbench models inspect PATH",
    )


def described(kind: Kind) -> str:
    """A head in words."""
    return f"a head of family {kind.family} ({kind.layout} layout)"


def load_as(kind: Kind) -> str:
    """Drafters to name in an experiment."""
    return " or ".join(f'"{name}"' for name in DRAFTERS[kind.family])


def runs_elsewhere(foreign: Foreign) -> str:
    """Where a foreign head runs."""
    return f"it runs on {foreign.runs_on}; serve it there and attach with --engine"

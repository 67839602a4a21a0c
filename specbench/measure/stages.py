"""Starts of servers: which prompts each start decodes, and which arm leads.

How fast a server is differs from one start to the next (memory layout, clocks, compiled code), so
a difference between arms that rests on one start each may be a difference between starts. A run
with several starts gives each of them a share of the prompts of every suite; intervals then
resample starts first (``stats.bootstrap``).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

from specbench.core.arm import PLAIN
from specbench.core.manifest import RecordId
from specbench.measure.plan import Selection, Unit, plan_units
from specbench.measure.requests import Conditions


@dataclass(frozen=True, slots=True)
class Stage:
    """What is decoded between one start of the servers and the next.

    Attributes:
        index: which start this is, from 0.
        together: whether the servers of all arms live at the same time, so that arms interleave
            inside each unit; else each arm decodes all units before the next arm is started.
        arms: in the order in which they are started.
    """

    index: int
    together: bool
    arms: tuple[str, ...]
    units: tuple[Unit, ...]

    def records(self, arm: str | None = None) -> Iterator[RecordId]:
        """Every record this stage leaves behind, of one arm or of all."""
        for unit in self.units:
            yield from (record for record in unit.records() if arm in (None, record.arm))

    def open(self, done: Container[RecordId], arm: str | None = None) -> bool:
        """Whether anything is left to do, for one arm or for all."""
        return any(record not in done for record in self.records(arm))


def plan_stages(
    selection: Selection,
    conditions: Conditions,
    arms: Sequence[str],
    starts: int = 1,
    together: bool = True,
) -> list[Stage]:
    """The stages of a run in the order they run.

    Prompts are dealt out in turn, prompt i to stage i modulo ``starts``: every stage holds every
    suite, temperature and concurrency. One stage of arms that live together is the plan of a run
    without servers: the same units, names and orders.

    Arms that live apart run A B, then B A, then A B: a machine that slowly heats up or slows down
    favours neither. Where a later turn shows plain's answer to an earlier one, plain must have
    answered: it then leads every stage, and only the other arms change places.

    Raises:
        ValueError: a suite has fewer prompts than there are starts.
    """
    for suite, prompts in selection.items():
        if len(prompts) < starts:
            raise ValueError(
                f"suite {suite} has {len(prompts)} prompts for {starts} starts of each server: "
                "every start needs one of its own"
            )
    awaited = _plain_is_awaited(selection, conditions, arms)
    stages = []
    for index in range(starts):
        share = {suite: prompts[index::starts] for suite, prompts in selection.items()}
        units = plan_units(share, conditions, arms, index)
        order = tuple(arms)
        if not together:
            order = _order(arms, index, awaited)
            units = [_of_servers(unit, order) for unit in units]
        stages.append(Stage(index, together, order, tuple(units)))
    return stages


def open_stages(stages: Sequence[Stage], done: Container[RecordId]) -> list[Stage]:
    """The stages in which something is left to do; the others start nothing."""
    return [stage for stage in stages if stage.open(done)]


def server_starts(
    stages: Sequence[Stage], servers: Container[str], done: Container[RecordId] = ()
) -> int:
    """How many servers a run still has to start.

    Args:
        servers: the arms whose servers are started here; others are attached, or are none.
    """
    return sum(
        stage.open(done, None if stage.together else arm)
        for stage in stages
        for arm in stage.arms
        if arm in servers
    )


def _plain_is_awaited(selection: Selection, conditions: Conditions, arms: Sequence[str]) -> bool:
    if conditions.history != "plain" or PLAIN not in arms:
        return False
    return any(len(prompt.turns) > 1 for prompts in selection.values() for prompt in prompts)


def _order(arms: Sequence[str], index: int, awaited: bool) -> tuple[str, ...]:
    first = [PLAIN] if awaited else []
    rest = [arm for arm in arms if arm not in first]
    return (*first, *(reversed(rest) if index % 2 else rest))


def _of_servers(unit: Unit, order: tuple[str, ...]) -> Unit:
    name = unit.name if unit.start else f"{unit.name}:s0"
    return replace(unit, name=name, kind="server", orders=(order,) * len(unit.orders))

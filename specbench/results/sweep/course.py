"""The course of a sweep at one load, replayed from what was measured: what comes next, who led.

Nothing is remembered but runs: a sweep that was killed takes the same decisions again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from specbench.core.quantity import Quantity
from specbench.results.sweep.candidates import WITHOUT, Candidate
from specbench.results.sweep.halving import Decision, Entrant, Ratio, decide

SCOUT, RUNG, CONFIRM = "scout", "rung", "confirm"
MARGIN = 0.25
"""How far a predicted speed may lie below the best one and still be worth measuring."""


class Seen(Protocol):
    """What is asked of the run of one step."""

    def speed(self, name: str) -> Quantity:
        """Times plain, paired."""
        ...

    def against(self, name: str, other: str) -> Ratio:
        """Times the other one, paired."""
        ...

    def refused(self, name: str) -> str:
        """Why it may not be recommended; empty where it may."""
        ...

    def predicted(self, candidates: Sequence[Candidate]) -> Mapping[str, float]:
        """Speed-ups of candidates that were not measured, from those that were."""
        ...

    def leading(self, names: Sequence[str]) -> Sequence[str]:
        """Who leads in a context bucket of enough prompts."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """One run of a sweep.

    Attributes:
        kind: ``scout``, ``rung`` or ``confirm``.
        number: of the rung, from 1; 0 for the others.
        candidates: those that draft; plain is measured with all of them.
        limit: prompts per suite; None for all.
    """

    kind: str
    number: int
    candidates: tuple[Candidate, ...]
    limit: int | None

    @property
    def folder(self) -> str:
        """Name of the folder of its run."""
        return f"{self.kind}-{self.number}" if self.number else self.kind


@dataclass(slots=True)
class Course:
    """A sweep at one load so far.

    Attributes:
        predicted: name -> speed-up that the scout predicts.
        left_out: name -> why it was not measured at all.
        decisions: of each rung that was measured.
        next: what is to be measured; None where nothing is left.
        ending: why the race ended; empty while it goes on.
        best: the candidate that is confirmed, the one before it that drafts; None where none may
            be recommended. ``runner`` is the next best.
    """

    predicted: Mapping[str, float] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    next: Step | None = None
    ending: str = ""
    best: Candidate | None = None
    runner: Candidate | None = None

    @property
    def leader(self) -> str:
        """Who led the last rung; empty where nobody may be recommended, or before the first."""
        return self.decisions[-1].leader if self.decisions else ""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a sweep at one load was asked for.

    Attributes:
        candidates: those that draft.
        scouts: those of them that are measured first, to predict the others; empty for none.
        ladder: prompts per suite of each rung.
        confirm: prompts per suite of the confirmation; None for all of its split.
    """

    candidates: tuple[Candidate, ...]
    scouts: tuple[Candidate, ...]
    ladder: tuple[int, ...]
    confirm: int | None = None


def course(
    setting: Setting, steps: Mapping[str, Seen], ended: str = "", confirm: int | None = None
) -> Course:
    """Replay a sweep at one load.

    Args:
        steps: folder of a step -> its finished run.
        ended: why the race is over although it is not decided; empty where it may go on.
        confirm: prompts per suite of the confirmation, where it is to be smaller.
    """
    found = Course()
    racing = list(setting.candidates)
    if setting.scouts:
        scout = Step(SCOUT, 0, setting.scouts, setting.ladder[0])
        if scout.folder not in steps:
            found.next = scout
            return found
        found.predicted = steps[scout.folder].predicted(racing)
        racing, found.left_out = plausible(racing, found.predicted)
    measured = _race(found, setting, racing, steps, ended)
    if found.next is not None:
        return found
    found.best, found.runner = _ahead(found, measured)
    if found.best is not None:
        chosen = tuple(one for one in (found.best, found.runner) if one is not None)
        last = Step(CONFIRM, 0, chosen, confirm or setting.confirm)
        found.next = None if last.folder in steps else last
    return found


Last = tuple[int, float]
"""The last rung in which a candidate was measured, and its speed there."""


def _race(
    found: Course,
    setting: Setting,
    racing: Sequence[Candidate],
    steps: Mapping[str, Seen],
    ended: str,
) -> dict[Candidate, Last]:
    """Go through the rungs there are; says what comes next, or why the race is over."""
    measured: dict[Candidate, Last] = {}
    everybody = [WITHOUT, *racing]
    for number, limit in enumerate(setting.ladder, 1):
        drafting = tuple(one for one in everybody if not one.plain)
        step = Step(RUNG, number, drafting, limit)
        if step.folder not in steps:
            if not ended:
                found.next = step
            found.ending = ended
            return measured
        seen = steps[step.folder]
        entrants = [_entrant(one, seen) for one in everybody]
        measured |= {
            one.candidate: (number, one.speed)
            for one in entrants
            if one.speed is not None and not one.refused
        }
        names = [one.name for one in everybody]
        decision = decide(entrants, seen.against, seen.leading(names))
        found.decisions.append(decision)
        if decision.decided:
            found.ending = decision.why
            return measured
        by_name = {one.name: one for one in everybody}
        everybody = [by_name[name] for name in decision.kept]
    found.ending = "all prompts of the split are used"
    return measured


def _entrant(candidate: Candidate, seen: Seen) -> Entrant:
    refused = seen.refused(candidate.name)
    if candidate.plain:
        return Entrant(candidate, 1.0, refused)
    speed = seen.speed(candidate.name)
    return Entrant(candidate, speed.number() if speed.known else None, refused)


def _ahead(
    found: Course, measured: Mapping[Candidate, Last]
) -> tuple[Candidate | None, Candidate | None]:
    """The two that draft and come first: the leader, then whoever went furthest and fastest."""

    def place(one: Candidate) -> tuple[bool, int, float, tuple[int, ...]]:
        rung, speed = measured[one]
        return one.name != found.leader, -rung, -speed, one.size

    order = sorted((one for one in measured if not one.plain), key=place)
    first, second = [*order, None, None][:2]
    return first, second


def plausible(
    candidates: Sequence[Candidate], predicted: Mapping[str, float]
) -> tuple[list[Candidate], dict[str, str]]:
    """Those whose predicted speed-up is near the best; whoever has no prediction stays.

    Returns:
        Those that are measured, and why the others are not.
    """
    best = max(predicted.values(), default=0.0)
    low = {
        name: f"predicted {speed:.2f}x plain, the best {best:.2f}x"
        for name, speed in predicted.items()
        if speed < (1 - MARGIN) * best
    }
    kept = [one for one in candidates if one.name not in low]
    return kept, {one.name: low[one.name] for one in candidates if one.name in low}


def ladder(first: int, available: int) -> tuple[int, ...]:
    """Prompts per suite of each rung: doubled until all are used.

    Args:
        first: of the first rung, at least 1.
        available: prompts of the largest suite.
    """
    rungs = [min(first, available)]
    while rungs[-1] < available:
        rungs.append(min(2 * rungs[-1], available))
    return tuple(rungs)


def first_limit(fewest: int, load: int, sizes: Sequence[int], units: int) -> int:
    """Prompts per suite of the first rung: at least ``units`` units of timing where there are.

    At load 1 a prompt is one; above it a block of ``load`` prompts of one suite is.

    Args:
        fewest: prompts per suite that were asked for.
        sizes: prompts that each suite has.
    """

    def blocks(limit: int) -> int:
        return sum(max(1, min(limit, size) // load) for size in sizes)

    largest = max(sizes)
    limit = min(max(fewest, load), largest)
    while limit < largest and blocks(limit) < units:
        limit += 1
    return limit

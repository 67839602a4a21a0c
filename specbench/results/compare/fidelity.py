"""Whether either side's output was still the target's, as its own run found."""

from __future__ import annotations

from dataclasses import dataclass

from specbench.core.arm import PLAIN
from specbench.results.cells import whole_cell
from specbench.results.compare.sides import Side
from specbench.results.compare.split import ALL, Group
from specbench.results.compare.verdict import Verdict
from specbench.results.summary import BROKEN, read_summary

NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The word of both sides for one group, and what follows.

    Attributes:
        base, new: as in the tables: identical, passed, MISMATCH, FAILED, differs ...
    """

    base: str
    new: str
    verdict: Verdict


def words(side: Side) -> dict[Group, str]:
    """The word of each of the side's cells, as its run's summary has it.

    None of plain, which is what every output is held against.
    """
    if side.arm.name == PLAIN:
        return {}
    whole = whole_cell(side.manifest)
    return {
        Group(row.temperature, row.concurrency, ALL if row.suite == whole else row.suite): (
            row.identity or NOT_JUDGED
        )
        for row in read_summary(side.folder).rows
        if row.arm == side.arm.name
    }


def fidelity(before: str | None, after: str | None) -> Fidelity | None:
    """What follows from the words of both sides; None where a group is no cell of a summary."""
    if before is None or after is None:
        return None
    broken = [word.startswith(BROKEN) for word in (before, after)]
    if broken == [False, True]:
        return Fidelity(before, after, Verdict.WORSE)
    if NOT_JUDGED in (before, after):
        return Fidelity(before, after, Verdict.UNDECIDED)
    if broken == [True, False]:
        return Fidelity(before, after, Verdict.BETTER)
    return Fidelity(before, after, Verdict.NO_DIFFERENCE)

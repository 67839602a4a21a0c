"""Whether either side's output was still the target's, as its own run found."""

from __future__ import annotations

from dataclasses import dataclass

from specbench.core.arm import PLAIN
from specbench.core.manifest import Manifest
from specbench.results.cells import ALL_SUITES
from specbench.results.compare.sides import Side
from specbench.results.compare.split import ALL, Group
from specbench.results.compare.verdict import Verdict
from specbench.results.summary import SummaryRow, read_summary

BROKEN = ("MISMATCH", "FAILED")
"""Words of a summary for an output that is not the target's."""
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


def fidelity(base: Side, new: Side, group: Group) -> Fidelity | None:
    """What the summaries say; None where a group is no cell of a summary."""
    if PLAIN in (base.arm.name, new.arm.name):
        # What every output is held against.
        return None
    words = [_word(side, group) for side in (base, new)]
    if words[0] is None or words[1] is None:
        return None
    before, after = words[0] or NOT_JUDGED, words[1] or NOT_JUDGED
    broken = [word.startswith(BROKEN) for word in (before, after)]
    if broken == [False, True]:
        return Fidelity(before, after, Verdict.WORSE)
    if NOT_JUDGED in (before, after):
        return Fidelity(before, after, Verdict.UNDECIDED)
    if broken == [True, False]:
        return Fidelity(before, after, Verdict.BETTER)
    return Fidelity(before, after, Verdict.NO_DIFFERENCE)


def _word(side: Side, group: Group) -> str | None:
    summary = read_summary(side.folder)
    wanted = _suite(side.manifest) if group.name == ALL else group.name
    return next((row.identity for row in summary.rows if _is(row, side, group, wanted)), None)


def _is(row: SummaryRow, side: Side, group: Group, suite: str) -> bool:
    return (row.suite, row.arm, row.temperature, row.concurrency) == (
        suite,
        side.arm.name,
        group.temperature,
        group.concurrency,
    )


def _suite(manifest: Manifest) -> str:
    """The cell of a summary that pools all suites; of one suite it is that suite's."""
    names = [suite.name for suite in manifest.suites]
    return ALL_SUITES if len(names) > 1 else names[0]

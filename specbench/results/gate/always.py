"""What every gate checks: that requests still succeed, and that the output is the target's."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from specbench.core.manifest import ArmFactors
from specbench.results.compare.rows import KEY
from specbench.results.compare.sides import RunRows, Side
from specbench.results.fidelity import LOSSY, MEANINGLESS
from specbench.results.gate.decide import Checked, Outcome
from specbench.results.summary import BROKEN, SummaryRow, read_summary

SUCCESS, FIDELITY = "success", "fidelity"
HOLDS = ("identical", "tie", "passed")


def success(base: Side, new: Side, run: RunRows, allowed: float) -> Checked:
    """Requests that the baseline finished and the new arm did not.

    Args:
        run: all records of the new run, failed ones too.
        allowed: share of the baseline's requests that may be lost.
    """
    both, lost = lost_requests(base, new, run)
    share = len(lost) / len(both) if len(both) else 0.0
    values = {"base": 1.0, "new": 1 - share, "ratio": 1 - share, "allowed": 1 - allowed}
    where = f"{len(both)} requests"
    if share > allowed:
        first = lost.iloc[0]
        why = f"{len(lost)} failed, the first with: {first['error'] or first['finish']}"
        return Checked(SUCCESS, where, Outcome.FAIL, why, **values)
    summary = read_summary(new.folder)
    # What was not run after a clean stop was not lost.
    if (missing := summary.missing) and not summary.stopped:
        why = f"{missing} planned requests are not on disk: the run was not finished"
        return Checked(SUCCESS, where, Outcome.INCONCLUSIVE, why, **values)
    return Checked(SUCCESS, where, Outcome.PASS, f"{len(lost)} failed", **values)


def lost_requests(base: Side, new: Side, run: RunRows) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Requests that the baseline finished and the new arm tried, and those of them that failed.

    Args:
        run: all records of the new run, failed ones too.
    """
    tried = run.rows[run.rows["arm"] == new.arm.name]
    both = base.rows[KEY].merge(tried[[*KEY, "output_tokens", "error", "finish"]], on=KEY)
    return both, both[both["output_tokens"].isna()]


def fidelity(base: Side, new: Side) -> Iterator[Checked]:
    """Whether the new arm's output is still the target's, at every temperature and load."""
    if gives_up(base.arm, new.arm):
        why = f"the rule {new.arm.rule_label} is {new.arm.lossless}, the baseline's was not"
        yield Checked(FIDELITY, "everywhere", Outcome.FAIL, why)
        return
    rows = [row for row in read_summary(new.folder).rows if row.arm == new.arm.name]
    several = len({row.suite for row in rows}) > 1
    for row in rows:
        if several and row.suite == "all":
            continue
        where = f"T={row.temperature:g}, {row.suite}"
        yield Checked(FIDELITY, where, *_of(row))


def _of(row: SummaryRow) -> tuple[Outcome, str]:
    word = row.identity
    if word.startswith(BROKEN):
        return Outcome.FAIL, row.identity_detail or row.fidelity or word
    if word.startswith(HOLDS) or row.lossless in (LOSSY, MEANINGLESS):
        return Outcome.PASS, word or f"the rule is {row.lossless}"
    if not word:
        return (
            Outcome.INCONCLUSIVE,
            "nothing to judge it by: specbench fidelity RUN --reference MODEL",
        )
    return Outcome.INCONCLUSIVE, row.fidelity or row.identity_detail or word


def gives_up(base: ArmFactors, new: ArmFactors) -> bool:
    """Whether the new arm's rule is lossy and the baseline's was not."""
    lossy = (LOSSY, MEANINGLESS)
    return new.lossless in lossy and base.lossless not in lossy

"""The two sides of a comparison: an arm of a run, with its records and those of its plain arm."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from specbench.catalog import nearest
from specbench.core.arm import PLAIN
from specbench.core.manifest import ArmFactors, Manifest
from specbench.errors import PrerequisiteError, UsageError
from specbench.results.compare.rows import read_rows
from specbench.results.read import find_run, load_manifest
from specbench.results.store import RunFolder
from specbench.results.summary import read_summary


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One arm of one run.

    Attributes:
        folder, manifest: of the run.
        arm: what it is.
        rows: its finished records.
        plain: those of the run's plain arm; empty where it has none.
    """

    folder: RunFolder
    manifest: Manifest
    arm: ArmFactors
    rows: pd.DataFrame
    plain: pd.DataFrame

    @property
    def name(self) -> str:
        """As it is named on the command line."""
        return f"{self.manifest.run}:{self.arm.name}"


@dataclass(frozen=True, slots=True, eq=False)
class RunRows:
    """A run, and the arm of it that was asked for; empty for all of them."""

    folder: RunFolder
    manifest: Manifest
    rows: pd.DataFrame
    asked: str = ""

    def side(self, arm: str) -> Side:
        """One of its arms."""
        return Side(
            self.folder, self.manifest, self.manifest.arm(arm), self._of(arm), self._of(PLAIN)
        )

    def speculative(self) -> list[str]:
        """Arms beside plain, in the order of the experiment."""
        return [arm.name for arm in self.manifest.arms if arm.name != PLAIN]

    def _of(self, arm: str) -> pd.DataFrame:
        rows = self.rows
        return rows[(rows["arm"] == arm) & rows["output_tokens"].notna()]


def open_run(name: str, out: Path) -> RunRows:
    """A run behind ``RUN`` or ``RUN:ARM``; RUN is a folder, an id or ``last``.

    Raises:
        PrerequisiteError: no such run.
        UsageError: no such arm, a study, or files that cannot be read.
    """
    run, arm = name, ""
    try:
        folder = find_run(name, out)
    except PrerequisiteError:
        run, separator, arm = name.rpartition(":")
        if not separator:
            raise
        folder = find_run(run, out)
    manifest = load_manifest(folder)
    arms = [one.name for one in manifest.arms]
    if arm and arm not in arms:
        raise UsageError(f"{folder.path} has no arm {arm!r}", nearest(arm, arms))
    return RunRows(folder, manifest, read_rows(folder), arm)


def matched(base: RunRows, new: RunRows) -> list[tuple[Side, Side]]:
    """Which arms are held against which.

    Named ones as they are named. Otherwise arms of one name, and where there are none of those the
    only two there are.

    Raises:
        UsageError: it does not follow which are meant.
    """
    pairs = _names(base, new)
    if not pairs:
        raise UsageError(
            f"{base.manifest.run} has the arms {_listed(base.speculative())} beside plain, "
            f"{new.manifest.run} has {_listed(new.speculative())}: which against which?",
            "name both: RUN:ARM RUN:ARM",
        )
    if base.manifest.run == new.manifest.run and any(one == other for one, other in pairs):
        raise UsageError(
            f"{base.manifest.run} against itself", "name two runs, or two arms of it: RUN:ARM"
        )
    return [(base.side(one), new.side(other)) for one, other in pairs]


def _names(base: RunRows, new: RunRows) -> list[tuple[str, str]]:
    if base.asked and new.asked:
        return [(base.asked, new.asked)]
    mine = [base.asked] if base.asked else base.speculative()
    others = [new.asked] if new.asked else new.speculative()
    if base.asked or new.asked:
        same = [(one, one) for one in mine if one in others and base.folder != new.folder]
        if not same and base.folder == new.folder:
            # One arm of a run against all its others.
            same = [(one, other) for one in mine for other in others if one != other]
    else:
        same = [(one, one) for one in mine if one in others]
    return same or ([(mine[0], others[0])] if len(mine) == len(others) == 1 else [])


def stopped_early(base: RunRows, new: RunRows) -> list[str]:
    """A line per run that was ended by what it showed: figures are then larger than they are."""
    runs = {run.folder.path: run for run in (base, new)}
    summaries = [read_summary(run.folder) for run in runs.values()]
    return [
        f"{one.run} was stopped early, {one.stopped}: intervals here are made for a number of "
        "prompts that was fixed before"
        for one in summaries
        if one.stopped
    ]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"

"""What the charts read: table.csv as a frame, and the run's records where a chart needs them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from specbench.core.arm import PLAIN
from specbench.core.manifest import Manifest
from specbench.results.cells import whole_cell
from specbench.results.read import Recorded, load_manifest, read_run
from specbench.results.schema import ResultError
from specbench.results.store import RunFolder
from specbench.results.summary import Summary, read_summary


@dataclass
class Measured:
    """A run for the charts; files are read when a chart first asks.

    Args:
        folder: of the run.
    """

    folder: RunFolder

    @cached_property
    def manifest(self) -> Manifest:
        """What the run is."""
        return load_manifest(self.folder)

    @cached_property
    def summary(self) -> Summary:
        """The summary that was written at its end."""
        return read_summary(self.folder)

    @cached_property
    def recorded(self) -> Recorded:
        """Everything that happened."""
        return read_run(self.folder)

    @cached_property
    def table(self) -> pd.DataFrame:
        """table.csv; ResultError where it cannot be read."""
        hint = f"type: specbench rescore {self.folder.path}"
        try:
            found = pd.read_csv(self.folder.table, dtype={"category": str, "tree": str})
        except (OSError, ValueError) as error:
            raise ResultError(f"{self.folder.table}: cannot be read: {error}", hint) from error
        lacking = {"metric", "stat", "value", "arm", "suite", "temperature"} - set(found.columns)
        if lacking:
            raise ResultError(f"{self.folder.table} lacks columns {sorted(lacking)}", hint)
        found["category"] = found["category"].fillna("")
        return found

    @property
    def arms(self) -> list[str]:
        """All arms, plain first."""
        return [arm.name for arm in self.manifest.arms]

    @property
    def speculative(self) -> list[str]:
        """All arms but plain."""
        return [name for name in self.arms if name != PLAIN]

    @property
    def whole(self) -> str:
        """The cell over all suites."""
        return whole_cell(self.manifest)

    @property
    def settings(self) -> list[tuple[float, int]]:
        """Temperatures and loads, in order."""
        pairs = self.table[["temperature", "concurrency"]].drop_duplicates()
        return sorted((float(t), int(c)) for t, c in pairs.itertuples(index=False))

    def cells(self, metric: str, stat: str) -> pd.DataFrame:
        """Rows of one metric and statistic, those of categories left out."""
        rows = self.table
        chosen = (rows["metric"] == metric) & (rows["stat"] == stat) & (rows["category"] == "")
        return rows[chosen]


def place(temperature: float, concurrency: int) -> str:
    """A temperature and load in words."""
    load = "" if concurrency == 1 else f", load {concurrency}"
    return f"T = {temperature:g}{load}"

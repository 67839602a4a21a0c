"""One test of one arm, and the words in which arms are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from specbench.core.arm import PLAIN
from specbench.core.manifest import Manifest
from specbench.core.request import GREEDY_BELOW
from specbench.results.cells import Cell, CellRecords
from specbench.results.fidelity import LOSSY, MEANINGLESS
from specbench.results.summary import DETECTED, UNSEEN

PASSED, FAILED, UNDECIDED = "passed", "FAILED", "undecided"
_LOSSY_WORDS = {PASSED: UNSEEN, FAILED: DETECTED}


@dataclass(frozen=True, slots=True)
class Line:
    """One test of one arm at one temperature and concurrency, over all suites.

    ``result`` is what this test says by itself, ``verdict`` that of the whole arm there, both in
    the words of the summary; numbers are None where a test has none. ``p`` of token-level tests is
    the test's own; of the others it is adjusted for every arm that is judged.
    """

    temperature: float
    concurrency: int
    arm: str
    rule: str
    lossless: str
    test: str
    n: int
    statistic: float | None
    p: float | None
    detectable: float | None
    result: str
    verdict: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Judging:
    """What every cell is judged by; ``same_weights`` as in ``experiment.reference.Replayed``."""

    manifest: Manifest
    records: Mapping[Cell, CellRecords]
    alpha: float
    outputs: bool
    ties: float
    replayed: bool
    same_weights: bool | None = None

    @property
    def has_plain(self) -> bool:
        """Whether any request was decoded by a plain arm."""
        return any(cell.arm == PLAIN for cell in self.records)

    def truncated(self, temperature: float) -> bool:
        """Whether top-k, top-p or min-p cut the target at a temperature."""
        for settings in self.manifest.identity.sampling:
            if settings["temperature"] == temperature:
                cut = settings.get("top_k", 0) > 0 or settings.get("top_p", 1) < 1
                return cut or settings.get("min_p", 0) > 0
        return True

    def rivals(self, cell: Cell) -> int:
        """How many cells are compared with plain at temperature 0, or above it."""
        greedy = cell.temperature < GREEDY_BELOW
        others = (c for c in self.records if c.arm != PLAIN)
        return max(1, sum((c.temperature < GREEDY_BELOW) is greedy for c in others))


def word(lossless: str, verdict: str) -> str:
    """A lossy arm neither passes nor fails: its difference is seen, or not."""
    if lossless == MEANINGLESS:
        return MEANINGLESS
    return _LOSSY_WORDS.get(verdict, verdict) if lossless == LOSSY else verdict


def able(spoken: str, detectable: float | None) -> str:
    """A test that could not have failed does not pass, whatever the others say."""
    return UNDECIDED if detectable is None and spoken in (PASSED, UNSEEN) else spoken

"""One verdict per cell: passed, failed, or why neither can be said (ALGORITHMS 6.5).

The tests of a cell look at the same tokens and are dependent; Bonferroni over them and Holm over
cells hold whatever the dependence. "Passed" is only said of a cell in which some test could have
failed, and always with the size of the defect it would have found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from specbench.fidelity.columns import Columns
from specbench.fidelity.conditional import TestResult, applicable
from specbench.fidelity.doubts import Doubts
from specbench.fidelity.support import support
from specbench.stats.multiplicity import holm

ALPHA = 0.01
NO_EVIDENCE = "the record holds no target probabilities at a temperature above 0"
_SMALLEST_SHOWN = 1e-12


class Status(StrEnum):
    """Outcome of a cell."""

    PASSED = "passed"
    FAILED = "FAILED"
    TOO_FEW = "too_few"
    NOT_TESTED = "not_tested"


@dataclass(frozen=True, slots=True)
class CellVerdict:
    """Outcome of the token-level tests of one cell.

    Attributes:
        status: see ``Status``; ``TOO_FEW`` where no test could have failed.
        n: tokens of the cell.
        p: p-value adjusted for all tests and cells; None where nothing was tested.
        deciding: the test with the smallest p-value; None where nothing was tested.
        tests: every test that ran.
        reason: why nothing was tested, or empty.
    """

    status: Status
    n: int = 0
    p: float | None = None
    deciding: TestResult | None = None
    tests: tuple[TestResult, ...] = ()
    reason: str = ""

    @property
    def sharpest(self) -> TestResult | None:
        """The test whose reference defect would have been found at the smallest total variation.

        Not the support test: what it would find exists only where the target is truncated.
        """
        able = [test for test in self.tests if test.detectable is not None]
        return min(
            (test for test in able if test.name != "support"),
            key=lambda test: test.detectable or 0.0,
            default=None,
        )

    @property
    def detectable(self) -> float | None:
        """Smallest total variation per token that some test would have found with 90 % power."""
        return self.sharpest.detectable if self.sharpest else None

    def __str__(self) -> str:
        match self.status:
            case Status.NOT_TESTED:
                return f"not tested: {self.reason}"
            case Status.TOO_FEW:
                return f"too few tokens: n={self.n}, no test could have failed"
            case Status.FAILED:
                return f"{self.status}: {self._failure()}, n={self.n} tokens"
        found = f"{self.status}, n={self.n} tokens, {_p(self.p)}"
        return found + self._caught()

    def _caught(self) -> str:
        """What would have been found: anywhere along the draft's order, and where tests look."""
        pit = next((test for test in self.tests if test.name == "pit"), None)
        limits = [test for test in (pit, self.sharpest) if test is not None and test.detectable]
        drafted = any(test.name == "draft_bias" for test in self.tests)
        texts = [f"{t.detectable:.2g} ({_reference(t.name, drafted)})" for t in limits]
        return f", would have caught TV {' or '.join(dict.fromkeys(texts))}" if texts else ""

    def _failure(self) -> str:
        if self.deciding is None:
            return _p(self.p)
        if self.deciding.name == "support":
            return f"support, {self.deciding.statistic:g} emitted with target probability 0"
        # Its sign says whether outputs are too sharp or too flat.
        z = [f" (surprisal Z={t.statistic:.1f})" for t in self.tests if t.name == "surprisal"]
        return f"{self.deciding.name} {_p(self.p)}{''.join(z)}"


def _reference(test: str, drafted: bool) -> str:
    """The defect that a test's ``detectable`` is about."""
    if test == "pit":
        return f"moved across one point of the {'draft/' if drafted else ''}target order"
    whose = "draft" if drafted and test != "surprisal" else "target"
    return f"moved to the {whose}'s first choice"


def _p(p: float | None) -> str:
    if p is None:
        return "p unknown"
    return f"p={p:.2g}" if p >= _SMALLEST_SHOWN else f"p<{_SMALLEST_SHOWN:g}"


def not_tested(reason: str) -> CellVerdict:
    """The verdict of a cell that is not tested, e.g. at temperature 0."""
    return CellVerdict(Status.NOT_TESTED, reason=reason)


def judge(
    cells: Mapping[str, Columns],
    alpha: float = ALPHA,
    *,
    support_tolerance: float = 0.0,
    doubts: Mapping[str, Doubts | None] | None = None,
) -> dict[str, CellVerdict]:
    """Test every cell and correct for having tested all of them.

    With m tests sharing a cell's alpha and c cells that hold tokens, every test's ``detectable`` is
    stated at alpha / (m c), the level at which it alone fails the cell. A cell fails where its
    smallest p-value times m, adjusted by Holm over cells, is at most alpha, or where the support
    test fails. The chance that any lossless cell fails is at most alpha.

    Args:
        cells: per cell its tokens; a cell without any is not tested.
        alpha: chance of a false alarm over all cells together.
        support_tolerance: see ``fidelity.support``; its ``REPLAY_TOLERANCE`` for a replay.
        doubts: of cells whose evidence is only known within bounds.
    """
    doubts = doubts or {}
    held = {name: columns for name, columns in cells.items() if len(columns)}
    tested = {
        name: _tests(columns, alpha / len(held), doubts.get(name)) for name, columns in held.items()
    }
    raw = [min(1.0, len(tests) * min(t.p for t in tests)) for tests in tested.values()]
    adjusted = dict(zip(tested, holm(raw), strict=True))
    verdicts = {}
    for name, columns in cells.items():
        if name in tested:
            border = support(columns, alpha, support_tolerance)
            verdicts[name] = _verdict(columns, tested[name], border, adjusted[name], alpha)
        else:
            verdicts[name] = not_tested(NO_EVIDENCE)
    return verdicts


def _tests(columns: Columns, alpha: float, doubts: Doubts | None) -> list[TestResult]:
    tests = applicable(columns)
    return [test(columns, alpha / len(tests), doubts) for test in tests]


def _verdict(
    columns: Columns, tests: Sequence[TestResult], border: TestResult, p: float, alpha: float
) -> CellVerdict:
    every = (border, *tests)
    deciding = min(every, key=lambda test: test.p)
    p = min(p, border.p)
    if p <= alpha:
        status = Status.FAILED
    elif any(test.detectable is not None for test in tests):
        status = Status.PASSED
    else:
        status = Status.TOO_FEW
    return CellVerdict(status, len(columns), p, deciding, every)

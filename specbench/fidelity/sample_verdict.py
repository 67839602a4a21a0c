"""Verdicts of two-sample tests: what was found, and whether anything could have been found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from specbench.fidelity.relabel import Relabelling, Statistic
from specbench.fidelity.replaced import detectable_share
from specbench.stats.multiplicity import holm


class Outcome(StrEnum):
    """What a test says. ``TOO_FEW`` could not have failed and so says nothing."""

    PASSED = "passed"
    FAILED = "FAILED"
    TOO_FEW = "too_few"


_REPLACED = {
    "mmd": "outputs replaced by ones that share nothing",
    "first_token": "outputs replaced, each with another first token",
    "length": "outputs replaced by longer ones than any",
    "eos_rate": "outputs replaced by ones of the rarer ending",
}
"""The defect that a test's ``detectable`` is about."""


@dataclass(frozen=True, slots=True)
class SequenceTest:
    """One test; None stands for what does not exist.

    Attributes:
        name: "mmd" (whole outputs), "first_token", "length" or "eos_rate".
        prompts: prompts with enough outputs in both arms for this test.
        n_arm, n_reference: outputs of these prompts.
        statistic: mean over these prompts; see ``hamming`` and ``outcomes``.
        p: permutation p-value, at least 1 / (1 + permutations).
        adjusted: Holm's p over the tests that could have failed.
        detectable: smallest total variation between the output laws of the two arms that would
            have been caught with 90 % power, where that share of the arm's outputs is replaced by
            ones that have nothing in common with any other output. None where only the loss of
            all would have been caught, or not even that. A defect that stays closer to normal
            outputs has to be larger.
        outcome: verdict at the family's alpha.
        note: why a test is ``TOO_FEW``.
    """

    name: str
    prompts: int
    n_arm: int
    n_reference: int
    statistic: float | None = None
    p: float | None = None
    adjusted: float | None = None
    detectable: float | None = None
    outcome: Outcome = Outcome.TOO_FEW
    note: str = ""

    def __str__(self) -> str:
        parts = [
            f"{self.name}: {self.outcome}",
            f"n={self.n_arm}+{self.n_reference} outputs of {self.prompts} prompts",
        ]
        if self.p is not None:
            parts.append(f"p={self.p:.2g}")
        if self.detectable is not None:
            parts.append(f"would have caught TV {self.detectable:.2g} ({_REPLACED[self.name]})")
        if self.note:
            parts.append(self.note)
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class TwoSample:
    """All tests of an arm against a reference.

    ``unpaired`` counts prompts without an output in one of the two; they are left out.
    """

    tests: tuple[SequenceTest, ...]
    alpha: float
    unpaired: int

    @property
    def outcome(self) -> Outcome:
        """FAILED if any test failed, passed if any passed, else too few."""
        found = {test.outcome for test in self.tests}
        ranked = (Outcome.FAILED, Outcome.PASSED)
        return next((outcome for outcome in ranked if outcome in found), Outcome.TOO_FEW)


def judge(
    relabelling: Relabelling, statistics: Sequence[Statistic], alpha: float, seed: int
) -> tuple[SequenceTest, ...]:
    """Test every statistic, with Holm's correction over those that can fail at all.

    Which ones can is known from the sample sizes alone; counting the others would only cost power.
    ``detectable`` is taken at alpha / (number of tests), where Holm rejects whatever the rest says.
    """
    able = [s for s in statistics if any(s.terms) and relabelling.smallest_p(s) <= alpha]
    found = [relabelling.test(statistic) for statistic in able]
    adjusted = holm([p for _, p in found])
    tests = []
    for statistic in statistics:
        if statistic not in able:
            tests.append(_unable(relabelling, statistic))
            continue
        at = able.index(statistic)
        detectable = detectable_share(relabelling, statistic, alpha / len(able), seed)
        outcome, note = Outcome.PASSED, ""
        if adjusted[at] <= alpha:
            outcome = Outcome.FAILED
        elif detectable is None:
            outcome, note = Outcome.TOO_FEW, "would have missed the loss of almost every output"
        value, p = found[at]
        sizes = _sizes(relabelling, statistic)
        tests.append(
            SequenceTest(statistic.name, *sizes, value, p, adjusted[at], detectable, outcome, note)
        )
    return tuple(tests)


def _unable(relabelling: Relabelling, statistic: Statistic) -> SequenceTest:
    note = "no prompt with several outputs"
    if any(statistic.terms):
        note = (
            f"could not have failed: smallest possible p is {relabelling.smallest_p(statistic):.2g}"
        )
    return SequenceTest(statistic.name, *_sizes(relabelling, statistic), note=note)


def _sizes(relabelling: Relabelling, statistic: Statistic) -> tuple[int, int, int]:
    """Prompts, outputs of the arm and outputs of the reference that a statistic uses."""
    used = relabelling.used(statistic)
    return len(used), sum(arm for arm, _ in used), sum(other for _, other in used)

"""Checks of a sampler that drafts by itself and reports counts, place by place in the round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from specbench.laws.adapters import CountsSampler
from specbench.laws.frequencies import ChiSquare, Context, chi_square, impossible, leak
from specbench.laws.mutants import DEFECTS, MUTANT_TABLES, untempered_bonus
from specbench.laws.noise_defects import KEYED_NOISE, SHARED_NOISE
from specbench.laws.outcome import Finding, Outcome, Status, Work, guarded, off_itself
from specbench.laws.place_counts import PlaceCounts, place_rounds
from specbench.laws.rules import RuleSampler
from specbench.laws.sequential import ALPHA
from specbench.laws.tables import TABLES, LawTable
from specbench.stats.multiplicity import holm
from specbench.verify.rejection import RULE as REJECTION

BONUS = "bonus without temperature"
EXAMPLE = "counts of rejection sampling with this defect"

Counting = Callable[[Tensor, Tensor, int, int], Tensor]
"""(target_probs [K + 1, V], draft_probs [K, V], samples, seed) -> counts [K + 1, V]."""


def places(table: LawTable) -> tuple[Tensor, Tensor]:
    """Rows of the table by place in the round: target [K + 1, V], draft [K, V]."""
    rows = torch.arange(table.k + 1) % table.size
    return table.target[rows], table.draft[rows[:-1]]


def counts_outcomes(
    name: str, sampler: CountsSampler, samples: int, seed: int
) -> Iterator[Outcome]:
    """Laws by chi-square at every place that is reached, Holm over the places of a table."""
    trial = _Trial(samples, seed)
    right = True
    for table in TABLES:
        outcome = guarded(name, "law", table.name, partial(trial.judged, sampler, table))
        right = right and outcome.status is Status.PASSED
        yield outcome
    work: dict[str, Work] = {BONUS: partial(trial.caught, _flat_bonus(sampler))}
    for mutant in DEFECTS:
        if mutant.name != BONUS:
            work[mutant.name] = partial(trial.caught, PlaceCounts(mutant.around(_exact)), EXAMPLE)
    work[SHARED_NOISE] = partial(trial.caught, PlaceCounts(_exact, shared=True), EXAMPLE)
    work[KEYED_NOISE] = lambda: Finding(
        Status.NOT_APPLICABLE, "counts of single rounds do not show what rounds share"
    )
    for case, found in work.items():
        yield guarded(name, "mutant", case, found if right else off_itself)


_exact = RuleSampler(REJECTION)


@dataclass(frozen=True, slots=True)
class _Trial:
    """The size of the tests."""

    samples: int
    seed: int

    def judged(self, sampler: Counting, table: LawTable) -> Finding:
        target, draft = places(table)
        counts = sampler(target, draft, self.samples, self.seed)
        contexts = _contexts(counts, target, draft)
        tests = [chi_square([context], ALPHA / len(contexts)) for context in contexts]
        return _finding(tests, impossible(contexts))

    def caught(self, sampler: Counting, how: str = "") -> Finding:
        for table in MUTANT_TABLES:
            found = self.judged(sampler, table)
            if found.status is Status.FAILED:
                detail = f"caught{how and ' in '}{how}: {found.detail}"
                return Finding(Status.PASSED, detail, found.off, found.detectable)
        return Finding(Status.FAILED, "escaped: the check has no power, raise --samples")


def _contexts(counts: Tensor, target: Tensor, draft: Tensor) -> list[Context]:
    rows = (target.double() / target.double().sum(1, keepdim=True)).numpy()
    # Behind the last draft there is none; the target's own first choice stands for it.
    liked = torch.cat([draft, target[-1:]]).double().numpy()
    numbers = counts.double().numpy()
    return [
        Context(c, p, leak(p, q)) for c, p, q in zip(numbers, rows, liked, strict=True) if c.any()
    ]


def _finding(tests: Sequence[ChiSquare], wrong: int) -> Finding:
    """Places that cannot show anything (one possible token, too few rounds) are not tested."""
    off = max(test.off for test in tests)
    if wrong:
        return Finding(Status.FAILED, f"{wrong} tokens have target probability 0", off)
    tested = [test for test in tests if np.isfinite(test.detectable)]
    if not tested:
        return Finding(Status.TOO_FEW, "no place could have shown a defect; raise --samples")
    p = min(holm([test.p for test in tested]))
    figures = f"{sum(test.n for test in tested)} tokens, {len(tested)} places, p={p:.2g}"
    detectable = max(test.detectable for test in tested)
    if p < ALPHA:
        return Finding(Status.FAILED, f"{figures}, shares off by {off:.4f}", off, detectable)
    return Finding(
        Status.PASSED, f"{figures}, would have caught {detectable:.4f}", None, detectable
    )


def _flat_bonus(sampler: Counting) -> Counting:
    """The sampler, given a last target row without its temperature."""

    def spoiled(target: Tensor, draft: Tensor, samples: int, seed: int) -> Tensor:
        given = untempered_bonus(place_rounds(target, draft, 1, seed))
        return sampler(given.target[given.position[0]], draft, samples, seed)

    return spoiled

"""Relabelling within prompts: the law of a two-sample statistic where the arms do not differ.

Where both arms sample from the same law, the outputs of one prompt are exchangeable between them.
A statistic is therefore compared with its values under random relabellings of each prompt's
outputs, with group sizes kept (model equality testing, Gao, Liang and Guestrin, ICLR 2025;
ALGORITHMS 6.1, 6.4). No asymptotic law is used: with about ten outputs per prompt all are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

Terms = Callable[[Bools, Bools], Floats]
"""``(arm, kept) -> share of the statistic``, one value per row, for one prompt.

Both arguments are (rows, outputs). ``arm`` marks the outputs that carry the label of the arm, the
same number in every row. Where ``kept`` is False the output counts as replaced by one that has
nothing in common with any other output, nor with another replaced one.
"""

SLACK = 1e-9
"""Equal values that were summed in another order differ by rounding."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """A sum over prompts that is large where the arms differ.

    Attributes:
        name: what is compared.
        terms: one per prompt, None where the prompt's samples are too small to say anything.
        signed: terms carry a sign and add up first; the statistic is the absolute value.
    """

    name: str
    terms: tuple[Terms | None, ...]
    signed: bool = False


class Relabelling:
    """Random relabellings of two samples, drawn once and used by every statistic.

    Args:
        sizes: outputs per prompt, (arm, reference), each at least 1; a prompt's outputs stand in
            this order.
        permutations: relabellings drawn, besides the observed one.
        seed: seed of the relabellings.

    Attributes:
        labels: per prompt (1 + permutations, outputs), the observed labels first.
    """

    def __init__(self, sizes: Sequence[tuple[int, int]], permutations: int, seed: int) -> None:
        self.sizes = tuple(sizes)
        self.permutations = permutations
        rng = np.random.default_rng(seed)
        self.labels = [_labels(rng, arm, arm + other, permutations) for arm, other in self.sizes]

    def test(self, statistic: Statistic) -> tuple[float, float]:
        """The mean over usable prompts, and p = (1 + as large) / (1 + permutations)."""
        everything = [np.ones_like(labels) for labels in self.labels]
        values = evaluate(statistic, self.labels, everything)
        observed = float(values[0])
        return observed, float(np.mean(values >= observed - SLACK))

    def used(self, statistic: Statistic) -> list[tuple[int, int]]:
        """Sizes of the prompts that the statistic has terms for."""
        pairs = zip(self.sizes, statistic.terms, strict=True)
        return [size for size, terms in pairs if terms is not None]

    def smallest_p(self, statistic: Statistic) -> float:
        """No sample of these sizes can give a smaller p.

        One relabelling among all is the most extreme at best. Swapping the labels of a prompt
        with equal groups changes no unsigned term, so that such relabellings come in pairs; a
        signed sum only changes its sign, where all groups are equal.
        """
        used = self.used(statistic)
        equal = [arm == other for arm, other in used]
        pairs = int(all(equal)) if statistic.signed else sum(equal)
        count = sum(math.log(math.comb(arm + other, arm)) for arm, other in used)
        return max(1 / (1 + self.permutations), math.exp(pairs * math.log(2) - count))


def evaluate(statistic: Statistic, labels: Sequence[Bools], kept: Sequence[Bools]) -> Floats:
    """The statistic, one value per row of the labels."""
    used = [
        terms(arm, held)
        for terms, arm, held in zip(statistic.terms, labels, kept, strict=True)
        if terms is not None
    ]
    values = np.sum(used, axis=0) / len(used)
    return np.asarray(np.abs(values) if statistic.signed else values, np.float64)


def _labels(rng: np.random.Generator, arm: int, total: int, permutations: int) -> Bools:
    """(1 + permutations, total): the observed labels, then random ones with as many set."""
    observed = np.arange(total) < arm
    return np.vstack([observed, rng.permuted(np.tile(observed, (permutations, 1)), axis=1)])

"""Single features of an output: its first token, its length, whether it ended by itself.

Each function turns the feature of one prompt's outputs, the arm's and the reference's together,
into its share of a statistic (ALGORITHMS 6.4 b and c). Features catch what a kernel over whole
outputs averages away: a defect of the first step, a stop that is missed or comes too early.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specbench.fidelity.relabel import Bools, Floats, Terms

NO_TOKEN = -1
"""First token of an empty output: an outcome like any other."""


def first_token_terms(outputs: Sequence[Sequence[int]]) -> Terms:
    """Pearson's chi-square of the 2 x V table of first tokens.

    With groups of m and n, and counts a and b of a token: sum of (n a - m b)^2 / (m n (a + b)).
    The first token of a replaced output occurs only once.
    """
    first = [output[0] if len(output) else NO_TOKEN for output in outputs]
    tokens, which = np.unique(first, return_inverse=True)
    one_hot = np.eye(len(tokens))[which]

    def terms(arm: Bools, kept: Bools) -> Floats:
        m = int(arm[0].sum())
        n = arm.shape[1] - m
        a, b = (arm & kept) @ one_hot, (~arm & kept) @ one_hot
        table = ((n * a - m * b) ** 2 / np.maximum(a + b, 1)).sum(axis=1) / (m * n)
        alone_a, alone_b = (arm & ~kept).sum(axis=1), (~arm & ~kept).sum(axis=1)
        return np.asarray(table + alone_a * n / m + alone_b * m / n)

    return terms


def length_terms(outputs: Sequence[Sequence[int]]) -> Terms:
    """Kolmogorov-Smirnov distance of the lengths: largest difference of the two distributions.

    A replaced output is longer than every other.
    """
    lengths = np.array([len(output) for output in outputs])
    order = np.argsort(lengths, kind="stable")
    ties_end = np.flatnonzero(np.diff(lengths[order], append=np.inf))

    def terms(arm: Bools, kept: Bools) -> Floats:
        m = int(arm[0].sum())
        n = arm.shape[1] - m
        step = np.where(arm, n, -m) * kept
        gap = np.abs(step[:, order].cumsum(axis=1)[:, ties_end]).max(axis=1)
        return np.asarray(gap / (m * n))

    return terms


def end_terms(ended: Sequence[bool], replaced_ends: bool) -> Terms:
    """Share of the arm's outputs that ended by themselves, minus that of the reference.

    Args:
        ended: one entry per output; False where the length limit cut it.
        replaced_ends: what a replaced output does; the rarer of the two is the harmful one.
    """
    flags = np.asarray(ended, np.bool_)

    def terms(arm: Bools, kept: Bools) -> Floats:
        m = int(arm[0].sum())
        n = arm.shape[1] - m
        step = np.where(arm, n, -m)
        gap = (step * np.where(kept, flags, replaced_ends)).sum(axis=1)
        return np.asarray(gap / (m * n))

    return terms

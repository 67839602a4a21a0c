"""Whole outputs: maximum mean discrepancy with the Hamming kernel.

Model equality testing (Gao, Liang and Guestrin, ICLR 2025; ALGORITHMS 6.1). The kernel of two
outputs of one prompt is the share of positions at which they hold the same token; outputs of
different prompts are not compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specbench.fidelity.relabel import Bools, Floats, Terms

PAD = -1


def hamming_kernel(outputs: Sequence[Sequence[int]], length: int) -> Floats:
    """Share of the first ``length`` positions at which two outputs agree, shape (n, n).

    Shorter outputs are filled with a symbol that equals itself, as in the authors' package: two
    outputs that have both ended agree. Outputs of length 0 agree everywhere.

    Args:
        outputs: n sequences of token ids, none longer than ``length``.
        length: of the longest output of both arms over all prompts, so that a position weighs the
            same in every prompt.
    """
    if length == 0:
        return np.ones((len(outputs), len(outputs)))
    ids: NDArray[np.int64] = np.full((len(outputs), length), PAD)
    for row, output in zip(ids, outputs, strict=True):
        row[: len(output)] = output
    return np.array([(ids == row).mean(axis=1) for row in ids]).reshape(len(ids), len(ids))


def mmd_terms(kernel: Floats) -> Terms:
    """Unbiased estimate of MMD^2 for one prompt (Gretton et al. 2012, lemma 6).

    Mean kernel of two different outputs inside the arm, plus the same inside the reference, minus
    twice the mean kernel between them. Negative values are normal where the laws are equal. Both
    groups need two outputs. A replaced output agrees with nothing, at no position.
    """
    between = kernel - np.diag(np.diag(kernel))

    def terms(arm: Bools, kept: Bools) -> Floats:
        own, other = (arm & kept).astype(np.float64), (~arm & kept).astype(np.float64)
        near = own @ between
        m = int(arm[0].sum())
        n = arm.shape[1] - m
        inside = (near * own).sum(axis=1) / (m * (m - 1))
        reference = ((other @ between) * other).sum(axis=1) / (n * (n - 1))
        across = (near * other).sum(axis=1) / (m * n)
        return np.asarray(inside + reference - 2 * across)

    return terms

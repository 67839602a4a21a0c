"""A sequential test of samplers that draw their own numbers, valid whenever it is looked at.

Streams of rounds follow each other on a table, and every emitted token counts where its place is
reached. Two tests share the tokens: an e-process that may stop at any time, and a chi-square at
the end. Shapes: B streams, K draft length, V vocabulary.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specbench.laws.frequencies import ChiSquare, Context, chi_square, impossible, leak
from specbench.laws.outcome import Finding, Status
from specbench.laws.streams import Drawn, Noise, streams
from specbench.laws.tables import LawTable

ALPHA = 1e-6
"""Chance of a false alarm of each of the two tests on one table."""
SHARES = (0.005, 0.02, 0.05, 0.1, 0.2, 0.4)
"""Mixture weights of the e-process's alternatives (ALGORITHMS 6.3)."""
FLATTER, SHARPER = 0.7, 1 / 0.7

Floats = NDArray[np.float64]


class Watch:
    """Both tests of one table.

    The e-process is a mixture of products of (1 - share) + share * alternative/target, with
    alternatives that are known before a token is drawn: the draft's row, its first choice, the
    target's first choice, and the target flatter or sharper. Under a right sampler its chance
    ever to exceed 1/alpha is at most alpha (Ville's inequality).
    """

    def __init__(self, table: LawTable) -> None:
        self.table = table
        self.counts = np.zeros((table.k + 1, *[table.size] * 3), np.int64)
        self._factors = _log_factors(table)
        self._logs = np.zeros(len(self._factors))
        self.largest = 0.0
        """Largest logarithm of the e-value so far."""

    def add(self, counts: Tensor) -> None:
        """Take in the tokens of one more call."""
        self.counts += counts.numpy()
        by_pair = counts.sum((0, 1)).numpy()
        self._logs += (self._factors * by_pair).sum((1, 2))
        self.largest = max(self.largest, self.log_e)

    @property
    def log_e(self) -> float:
        """Logarithm of the e-value of all tokens so far."""
        peak = self._logs.max()
        return float(peak + np.log(np.exp(self._logs - peak).mean()))

    @property
    def alarmed(self) -> bool:
        """Whether the sampler is convicted already."""
        return self.largest >= -np.log(ALPHA) or impossible(self.contexts()) > 0

    def contexts(self) -> list[Context]:
        """Tokens by place in the round and the two tokens before."""
        target, draft = _rows(self.table)
        return [
            Context(cell.astype(np.float64), target[before], leak(target[before], draft[before]))
            for place in self.counts
            for older in place
            for before, cell in enumerate(older)
            if cell.any()
        ]

    def finding(self) -> Finding:
        """What the tokens so far say; a test that could not have failed does not pass."""
        test = chi_square(self.contexts(), ALPHA)
        wrong = impossible(self.contexts())
        if wrong:
            detail = f"{wrong} of {test.n} tokens have target probability 0"
            return Finding(Status.FAILED, detail, test.off, test.detectable)
        if self.alarmed or test.p < ALPHA:
            detail = f"{self._figures(test)}, shares off by {test.off:.4f}"
            return Finding(Status.FAILED, detail, test.off, test.detectable)
        if not np.isfinite(test.detectable):
            detail = f"{test.n} tokens could not have shown any defect; raise --samples"
            return Finding(Status.TOO_FEW, detail)
        detail = f"{self._figures(test)}, would have caught {test.detectable:.4f}"
        return Finding(Status.PASSED, detail, None, test.detectable)

    def _figures(self, test: ChiSquare) -> str:
        return f"{test.n} tokens, p={test.p:.2g}, e-value 10^{self.largest / np.log(10):.1f}"


def _rows(table: LawTable) -> tuple[Floats, Floats]:
    """Target and draft rows float64 [V, V], normalised."""
    rows = [table.target.double(), table.draft.double()]
    target, draft = ((r / r.sum(1, keepdim=True)).numpy() for r in rows)
    return target, draft


def _log_factors(table: LawTable) -> Floats:
    """log((1 - share) + share * alternative/target), [components, V, V]; 0 outside the support."""
    target, draft = _rows(table)
    inside = target > 0
    alternatives = [
        draft,
        np.eye(table.size)[draft.argmax(1)],
        np.eye(table.size)[target.argmax(1)],
        *(np.where(inside, target, 0.0) ** power for power in (FLATTER, SHARPER)),
    ]
    found = []
    for rows in alternatives:
        # Mass on impossible tokens is never seen before the support test convicts.
        law = np.where(inside, rows, 0.0)
        total = law.sum(1, keepdims=True)
        law = np.where(total > 0, law / np.where(total > 0, total, 1.0), target)
        ratio = np.where(inside, law / np.where(inside, target, 1.0), 1.0)
        found += [np.log((1 - share) + share * ratio) for share in SHARES]
    return np.stack(found)


def watched(
    sampler: Drawn, table: LawTable, samples: int, seed: int, device: torch.device,
    noise: Noise = Noise.FRESH,
) -> Finding:  # fmt: skip
    """Run both tests on one table; ends as soon as the sampler is convicted."""
    watch = Watch(table)
    for counts in streams(sampler, table, samples, seed, device, noise):
        watch.add(counts)
        if watch.alarmed:
            break
    return watch.finding()

"""Small tables on which the output law of a sampler is known: target and draft by token before.

Random tables and hard ones: zero probabilities on either side, rows that are equal or nearly so,
one-hot rows, disjoint supports, and drafts taken without chance. Shapes: V vocabulary, K draft
length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

GRAIN = 4096
"""Random rows hold multiples of 1/GRAIN, which add up to 1 without rounding."""


@dataclass(frozen=True, slots=True)
class LawTable:
    """One setting.

    Attributes:
        name: as results call it.
        target: float32 [V, V], row t is the law of the token after token t.
        draft: float32 [V, V], rows likewise; one-hot where drafts are taken without chance.
        sampled: whether drafts are drawn from ``draft``.
        k: draft length.
    """

    name: str
    target: Tensor
    draft: Tensor
    sampled: bool
    k: int

    @property
    def size(self) -> int:
        """V."""
        return len(self.target)

    @property
    def length(self) -> int:
        """Tokens that no fewer than three rounds can emit."""
        return 2 * (self.k + 1) + 1


def starts(target: Tensor, *drafts: Tensor) -> range:
    """Tokens that rounds can begin behind; token 0 stands for all where the rows are the same."""
    same = all(bool((rows == rows[0]).all()) for rows in (target, *drafts))
    return range(1 if same else len(target))


def eighths(*rows: Sequence[int]) -> Tensor:
    """Rows in eighths, which float32 holds exactly."""
    return torch.tensor(rows, dtype=torch.float32) / 8


def everywhere(row: Sequence[float]) -> Tensor:
    """The same row after every token."""
    return torch.tensor([list(row)] * len(row), dtype=torch.float32)


def argmax_rows(tokens: Sequence[int]) -> Tensor:
    """One-hot rows of a draft that takes ``tokens[t]`` after token t."""
    return torch.eye(len(tokens))[list(tokens)]


def random_rows(size: int, seed: int, spread: float = 1.5) -> Tensor:
    """Softmax of normal logits, rounded to multiples of 1/``GRAIN``; no entry is 0."""
    logits = spread * np.random.default_rng(seed).normal(size=(size, size))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    whole = np.maximum(np.floor(probs * GRAIN), 1).astype(np.int64)
    whole[np.arange(size), whole.argmax(1)] += GRAIN - whole.sum(1)
    return torch.from_numpy(whole / GRAIN).float()


THREE_TARGET = eighths([4, 3, 1], [0, 8, 0], [2, 2, 4])
THREE_DRAFT = eighths([2, 4, 2], [8, 0, 0], [2, 2, 4])
FOUR_TARGET = eighths([1, 1, 2, 4], [3, 1, 0, 4], [0, 0, 4, 4], [2, 2, 2, 2])
FOUR_DRAFT = eighths([4, 2, 1, 1], [4, 4, 0, 0], [0, 0, 4, 4], [8, 0, 0, 0])
FIVE_TARGET = eighths(
    [2, 2, 2, 1, 1], [0, 3, 3, 1, 1], [8, 0, 0, 0, 0], [1, 1, 4, 1, 1], [0, 0, 0, 0, 8]
)
FIVE_DRAFT = eighths(
    [4, 1, 1, 1, 1], [2, 2, 2, 1, 1], [0, 0, 4, 2, 2], [1, 1, 4, 1, 1], [0, 0, 0, 0, 8]
)
GOLDEN = everywhere([0.5, 0.3, 0.2]), everywhere([0.2, 0.5, 0.3])
"""ALGORITHMS 1.1: the draft is kept with probability .7."""
TWO = everywhere([1 / 3, 2 / 3]), everywhere([2 / 3, 1 / 3])
"""ALGORITHMS 1.6."""
PEAKED = torch.tensor([[3900, 190, 6], [40, 3900, 156], [6, 40, 4050]]) / GRAIN
NEARLY = torch.tensor([[2049, 1023, 1024], [1024, 2047, 1025], [1, 4094, 1]]) / GRAIN
NEAR_DRAFT = torch.tensor([[2048, 1024, 1024], [1024, 2048, 1024], [2, 4094, 0]]) / GRAIN

SAMPLED = (
    LawTable("three tokens, K=3", THREE_TARGET, THREE_DRAFT, True, 3),
    LawTable("four tokens, K=2", FOUR_TARGET, FOUR_DRAFT, True, 2),
    LawTable("five tokens, K=1", FIVE_TARGET, FIVE_DRAFT, True, 1),
    LawTable("three random tokens, K=2", random_rows(3, 1), random_rows(3, 2), True, 2),
    LawTable("six random tokens, K=1", random_rows(6, 5), random_rows(6, 6), True, 1),
    LawTable("equal rows, K=2", FOUR_TARGET, FOUR_TARGET, True, 2),
    LawTable("nearly equal rows, K=2", NEARLY, NEAR_DRAFT, True, 2),
    LawTable("opposed rows, K=2", PEAKED, PEAKED.flip(1), True, 2),
)
"""Drafts drawn from their rows."""

ARGMAX = (
    LawTable("argmax draft, three tokens, K=3", THREE_TARGET, argmax_rows([0, 0, 2]), False, 3),
    LawTable("argmax draft, four tokens, K=2", FOUR_TARGET, argmax_rows([3, 3, 0, 1]), False, 2),
    LawTable(
        "argmax draft, six random tokens, K=1",
        random_rows(6, 3),
        argmax_rows(random_rows(6, 4).argmax(1).tolist()),
        False,
        1,
    ),
    LawTable("impossible draft, K=2", FIVE_TARGET, argmax_rows([2, 0, 1, 3, 0]), False, 2),
)
"""Drafts taken without chance."""

TABLES = SAMPLED + ARGMAX

"""The law of what one round emits, and what follows from it for rounds one after another.

A round behind start s emits 1 to W tokens. All laws are dense: sequences of n tokens are numbered
in base V, the first token most significant. Shapes: S starts (= V), V vocabulary, W = K + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.laws.codes import digits, offsets

EXACT = 1e-6
"""Total variation that float32 rows and the places of jumps may add."""


@dataclass(frozen=True, slots=True)
class RoundLaw:
    """What one round emits.

    Attributes:
        exact: entry n - 1 is float64 [S, V**n], the chance to emit exactly these n tokens.
        doubt: chance that is not accounted for, see ``integrate.Integral``.
    """

    exact: tuple[Tensor, ...]
    doubt: float = 0.0

    @property
    def size(self) -> int:
        """V."""
        return int(self.exact[0].shape[1])

    def reach(self, n: int) -> Tensor:
        """float64 [S, V**n]: chance that a round emits these n tokens and maybe more."""
        total = self.exact[n - 1].clone()
        for extra, longer in enumerate(self.exact[n:], 1):
            total += longer.view(len(total), -1, self.size**extra).sum(2)
        return total

    def emits(self, n: int) -> Tensor:
        """float64 [S]: chance that a round emits at least n tokens."""
        nothing = torch.zeros(len(self.exact[0]), dtype=torch.float64)
        return sum((part.sum(1) for part in self.exact[n - 1 :]), nothing)

    def mean_tokens(self) -> Tensor:
        """float64 [S]: mean number of tokens per round."""
        return torch.stack([self.emits(n) for n in range(1, len(self.exact) + 1)]).sum(0)

    def behind(self, start: int) -> dict[tuple[int, ...], float]:
        """The law of one start as token sequences, without impossible ones."""
        return {
            digits(number, self.size, n): p
            for n, part in enumerate(self.exact, 1)
            for number, p in enumerate(part[start].tolist())
            if p > 0
        }

    def chained(self, length: int) -> Tensor:
        """float64 [S, V**length]: the first ``length`` tokens when rounds follow each other."""
        starts, size = len(self.exact[0]), self.size
        open_ends: list[Tensor | None] = [None] * length
        final = torch.zeros(starts, size**length, dtype=torch.float64)
        for have in range(length):
            prefix = open_ends[have]
            for n, part in enumerate(self.exact, 1):
                if have == 0:
                    longer = part
                elif prefix is not None:
                    # The next round starts behind the last token, the prefix's last digit.
                    longer = (prefix.view(starts, -1, size, 1) * part).view(starts, -1)
                else:
                    continue
                if have + n >= length:
                    final += longer.view(starts, size**length, -1).sum(2)
                else:
                    known = open_ends[have + n]
                    open_ends[have + n] = longer if known is None else known + longer
        return final


def gather(
    start: Tensor, code: Tensor, mass: Tensor, size: int, width: int, doubt: float = 0.0
) -> RoundLaw:
    """The law from outputs: start int64 [m], code int64 [m], mass float64 [m].

    Outputs behind token 0 alone stand for every start.
    """
    first = offsets(size, width)
    starts = 1 if int(start.max()) == 0 else size
    table = torch.zeros(starts * first[-1], dtype=torch.float64)
    table.index_add_(0, start * first[-1] + code, mass)
    parts = table.view(starts, -1).expand(size, -1).split([size**n for n in range(1, width + 1)], 1)
    return RoundLaw(tuple(part.contiguous() for part in parts), doubt)


def own_law(rows: Tensor, length: int) -> Tensor:
    """float64 [S, V**length]: the first tokens when each is drawn from the row of the one before.

    Rows are normalised here: float32 rows need not add up to 1.
    """
    rows = rows.double() / rows.double().sum(1, keepdim=True)
    law = rows
    for _ in range(length - 1):
        law = (law.view(len(rows), -1, len(rows), 1) * rows).view(len(rows), -1)
    return law


def distance(one: Tensor, other: Tensor) -> float:
    """Largest total variation between laws [S, m], over the starts."""
    return float((one - other).abs().sum(1).max()) / 2


def conditional_distance(law: RoundLaw, expected: Sequence[Tensor]) -> float:
    """How far tokens are from their law wherever a round reaches them (ALGORITHMS 1.8).

    Args:
        law: of one round.
        expected: entry j is float64 [V, V], the law of a round's token j by the token before it.

    Returns:
        The largest sum over prefixes of (chance to reach the token behind it) * total variation.
    """
    worst = 0.0
    for n, rows in enumerate(expected, 1):
        reach = law.reach(n)
        shape = (len(reach), law.size) if n == 1 else (len(reach), -1, law.size, law.size)
        split = reach.view(shape)
        wanted = split.sum(-1, keepdim=True) * rows.double()
        off = (split - wanted).abs().view(len(reach), -1).sum(1)
        worst = max(worst, float(off.max()) / 2)
    return worst

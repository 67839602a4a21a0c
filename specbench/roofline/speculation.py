"""What speculation can bring at most: the best K, its speed-up, and the acceptance that pays.

S = E / (d(K) + v(K + 1)) (ALGORITHMS 2.1), with costs that are lower bounds and without overhead
of the host. The bound is of the costs: whether S itself can be beaten depends on what is slower
than its bound, plain decoding or the step that drafts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from specbench.roofline.bound import Placed
from specbench.roofline.cost import Load
from specbench.stats.independent import expected_length, iid_root

Drafting = Callable[[int, int, int], float]
"""Seconds of drafting K tokens, from K, batch and context."""


def share_of(target: Placed, share: float) -> Drafting:
    """Every drafted token takes this share of a forward of the target; 0 drafts for nothing."""

    def seconds(k: int, batch: int, context: int) -> float:
        return k * share * target.seconds(Load(batch, 1, context))

    return seconds


def by_model(draft: Placed) -> Drafting:
    """A draft model or head, one forward after the other; Medusa's heads answer at once."""

    def seconds(k: int, batch: int, context: int) -> float:
        return ceil(k / draft.shape.answers) * draft.seconds(Load(batch, 1, context))

    return seconds


@dataclass(frozen=True, slots=True)
class Step:
    """A step that drafts K tokens, in forwards of the target of one row per request.

    Attributes:
        k: drafted tokens.
        d: drafting them.
        v: verifying them.
    """

    k: int
    d: float
    v: float

    def speedup(self, acceptance: float) -> float:
        """Tokens per forward of plain, x."""
        return expected_length(acceptance, self.k) / (self.d + self.v)

    @property
    def break_even(self) -> float | None:
        """The acceptance at which such steps are as fast as plain; None where none is enough."""
        needed = self.d + self.v - 1
        return iid_root(max(needed, 0.0), self.k) if needed <= self.k else None


@dataclass(frozen=True, slots=True)
class Best:
    """The K that is fastest at an acceptance; K = 0 is plain."""

    k: int
    speedup: float


def steps(target: Placed, drafting: Drafting, batch: int, context: int, longest: int) -> list[Step]:
    """Steps of K = 1 to ``longest``."""
    one = target.seconds(Load(batch, 1, context))
    return [
        Step(k, drafting(k, batch, context) / one, target.cost(Load(batch, k + 1, context)))
        for k in range(1, longest + 1)
    ]


def best(possible: list[Step], acceptance: float) -> Best:
    """The best of some steps and of none; the shortest of equally good ones."""
    found = Best(0, 1.0)
    for step in possible:
        if (speedup := step.speedup(acceptance)) > found.speedup:
            found = Best(step.k, speedup)
    return found


def break_even(possible: list[Step]) -> float | None:
    """The lowest acceptance at which some K is as fast as plain; None where it never is."""
    known = [step.break_even for step in possible]
    return min((value for value in known if value is not None), default=None)

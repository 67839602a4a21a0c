"""One round of successive halving: who leads, who is left out and why, and whether it is decided.

Jamieson and Talwalkar 1502.07943, with paired ratios in place of losses: nobody is left out on a
point estimate that has no interval, and nobody who may be as fast as the leader for want of data is
called surely slower.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from specbench.core.quantity import Quantity
from specbench.results.sweep.candidates import Candidate
from specbench.stats.power import ALPHA

CLOSE = 0.02
"""Relative difference in speed that decides nothing: between equals the smaller draft is taken."""

LAST = 2
"""Candidates that halving leaves."""

SURELY = "surely slower"
PROBABLY = "probably slower"
ONE_LEFT = "one is left"
ALIKE = f"those left are within {CLOSE:.0%} of each other"
NOBODY = "no candidate may be recommended"


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast as another one a candidate is, paired.

    Attributes:
        times: the ratio with its interval.
        p: two-sided, of swapping both inside each unit; None where nothing can be tested.
    """

    times: Quantity
    p: float | None

    @property
    def slower(self) -> bool:
        """Whether it surely is: interval and swap test agree, as in every comparison here."""
        tested = self.p is not None and self.p <= ALPHA
        return tested and self.times.high is not None and self.times.high < 1

    @property
    def alike(self) -> bool:
        """Whether both are equally fast for all that matters."""
        low, high = self.times.low, self.times.high
        return low is not None and high is not None and low >= 1 - CLOSE and high <= 1 + CLOSE


Against = Callable[[str, str], Ratio]
"""(candidate, leader) -> its ratio."""


@dataclass(frozen=True, slots=True)
class Entrant:
    """A candidate in one round.

    Attributes:
        speed: times plain on the same prompts; 1 for plain, None where nothing was measured.
        refused: why it may not be recommended, whatever its speed; empty where it may.
    """

    candidate: Candidate
    speed: float | None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a round came to.

    Attributes:
        leader: the fastest; empty where nobody may be recommended.
        kept: names of those that go on, the leader first, then by speed.
        dropped: name -> why it does not.
        decided: whether another round is of no use.
        why: what decided it; empty where nothing did.
    """

    leader: str
    kept: tuple[str, ...]
    dropped: Mapping[str, str] = field(default_factory=dict)
    decided: bool = False
    why: str = ""


def decide(
    entrants: Sequence[Entrant], against: Against, protected: Collection[str] = ()
) -> Decision:
    """One round.

    Those whose interval against the leader lies below 1 are surely slower, if a swap test says so
    too. If more than half are left then, the slowest go too, down to half, the larger half of an
    odd number. The last two are never told apart by halving: one of them is surely slower, or they
    are close, or prompts run out.

    Args:
        entrants: everybody who is in the race; names are different.
        against: paired ratios; asked with the leader as the second name.
        protected: names that halving alone does not drop, because they lead somewhere.
    """
    dropped = {one.candidate.name: one.refused for one in entrants if one.refused}
    racing = [one for one in entrants if not one.refused and one.speed is not None]
    dropped |= {
        one.candidate.name: "no speed was measured"
        for one in entrants
        if not one.refused and one.speed is None
    }
    if not racing:
        return Decision("", (), dropped, True, NOBODY)
    order = [one.candidate for one in sorted(racing, key=_place)]
    leader = order[0]
    ratios = {one.name: against(one.name, leader.name) for one in order[1:]}
    dropped |= {name: _slower(SURELY, q) for name, q in ratios.items() if q.slower}
    left = [one for one in order if one.name not in dropped]
    for one in _surplus(left, max(LAST, -(-len(order) // 2)), ratios, protected):
        dropped[one.name] = _slower(PROBABLY, ratios[one.name])
    left = [one for one in left if one.name not in dropped]
    return _decision(left, ratios, dropped)


def _place(entrant: Entrant) -> tuple[float, tuple[int, int]]:
    assert entrant.speed is not None
    return -entrant.speed, entrant.candidate.size


def _surplus(
    left: Sequence[Candidate],
    room: int,
    ratios: Mapping[str, Ratio],
    protected: Collection[str],
) -> list[Candidate]:
    """Those that halving drops, the slowest first; without an interval nobody is dropped."""
    free = [
        one
        for one in left[1:]
        if one.name not in protected and ratios[one.name].times.low is not None
    ]
    return free[::-1][: max(0, len(left) - room)]


def _decision(
    left: Sequence[Candidate], ratios: Mapping[str, Ratio], dropped: Mapping[str, str]
) -> Decision:
    if len(left) == 1:
        return Decision(left[0].name, (left[0].name,), dropped, True, ONE_LEFT)
    if all(ratios[one.name].alike for one in left[1:]):
        first = min(left, key=lambda one: one.size)
        kept = (first.name, *(one.name for one in left if one != first))
        return Decision(first.name, kept, dropped, True, ALIKE)
    return Decision(left[0].name, tuple(one.name for one in left), dropped)


def _slower(word: str, ratio: Ratio) -> str:
    times = ratio.times
    text = f"{word}: {times.number():.2f}x the leader"
    if times.low is None or times.high is None:
        return text
    return f"{text} [{times.low:.2f}, {times.high:.2f}]"

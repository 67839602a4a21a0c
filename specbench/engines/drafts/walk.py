"""The decode steps that a draft would have taken along recorded tokens, by their chances.

Notation: x_1 .. x_n are recorded output tokens, q_j and p_j the draft's and the target's law of x_j
given everything before it, K the longest draft, a step begins at s where s tokens are committed.

**Chance of acceptance given the path.** Under rejection sampling (Leviathan et al. 2211.17192) the
chance that x_{s+1} is drafted and accepted is min(q, p)(x), and the chance that it is emitted is
p(x), because the rule is lossless. So a step at s, of which we know only what was emitted, accepts
it with chance r_1 = min(1, q_1(x) / p_1(x)). The same holds for every depth behind it:

    P(step at s accepts i or more | emitted path) = r_1 r_2 ... r_i.

Tokens behind the step are drawn from p whatever happened in it, so that knowing them changes
nothing. A draft without chance has a one-hot q: then r is 1 where the drafted token is the recorded
one, and 0 elsewhere. The same is true of a tree of candidates chosen without chance under
multi-round verification, which in law draws from p and looks whether a candidate was drawn
(ALGORITHMS 1.5): r_j is 1 where a child on the path has the token. At temperature 0 it is what
happens.

**Expected steps.** A step that accepts exactly i tokens ends at s + i + 1. With b(s) the chance
that a step begins at s (b(1) = 1: the first token comes from the prefill),

    b(s + i + 1) += b(s) P(i | s),    E[steps | path] = sum over s < n of b(s).

Averaged over paths drawn from the target this is what decoding takes on average, and
(n - 1) / E[steps] the accept length, pooled as METRICS pools it.
"""

from __future__ import annotations

from collections.abc import Sequence


class Walk:
    """Steps of one request whose longest draft is ``k``; places are visited in order.

    Args:
        k: longest draft in tokens.
        tokens: n, output tokens of the record, the prefill's included.

    Attributes:
        steps: expected number of steps so far; whole where nothing is left to chance.
        accepted: expected number of steps with 0, 1 .. k accepted tokens; none behind the end.
    """

    def __init__(self, k: int, tokens: int) -> None:
        self.k = k
        self.steps = 0.0
        self.accepted = [0.0] * (k + 1)
        self._begins = [0.0] * (tokens + 1)
        self._end = tokens
        if tokens > 1:
            self._begins[1] = 1.0

    def begins(self, place: int) -> float:
        """b(s), the chance that a step begins where ``place`` tokens are committed."""
        return self._begins[place]

    def step(self, place: int, chances: Sequence[float]) -> None:
        """Take the step that begins at ``place``.

        Args:
            chances: r_1, r_2 .. as far as there is a draft; those behind ``k`` are not read.
        """
        reached = self._begins[place]
        if not reached:
            return
        self.steps += reached
        for count in range(min(self.k, len(chances)) + 1):
            more = reached * chances[count] if count < min(self.k, len(chances)) else 0.0
            exactly = reached - more
            self.accepted[count] += exactly
            self._begins[min(place + count + 1, self._end)] += exactly
            reached = more
            if not reached:
                break

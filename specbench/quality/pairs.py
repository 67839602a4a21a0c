"""The same requests under an arm and under plain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specbench.quality.score import Scored


@dataclass(frozen=True, slots=True)
class Pairs:
    """Scores of the requests that both arms answered, in the arm's order.

    ``dropped`` counts the answers, of either arm, whose request the other did not answer.
    """

    arm: tuple[Scored, ...]
    plain: tuple[Scored, ...]
    dropped: int

    @property
    def items(self) -> tuple[str, ...]:
        """The prompt of each pair: what is resampled as a whole."""
        return tuple(scored.answer.item for scored in self.arm)


def pair(arm: Sequence[Scored], plain: Sequence[Scored]) -> Pairs:
    """Join on suite, item, turn, temperature and repeat; never on row numbers.

    Raises:
        ValueError: two answers of one side have the same key.
    """
    others = {scored.answer.key: scored for scored in plain}
    own = {scored.answer.key for scored in arm}
    if len(others) < len(plain) or len(own) < len(arm):
        raise ValueError("two answers to one request; give one arm at one concurrency")
    both = [(scored, others[scored.answer.key]) for scored in arm if scored.answer.key in others]
    dropped = len(arm) + len(plain) - 2 * len(both)
    return Pairs(tuple(first for first, _ in both), tuple(second for _, second in both), dropped)

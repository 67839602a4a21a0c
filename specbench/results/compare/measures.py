"""What two arms are compared in: totals per request, and which direction is the better one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from specbench.stats.ratios import Array

NS_PER_MS, NS_PER_S = 1e6, 1e9
Values = Callable[[str], Array]
"""Name of a column of items.csv -> its values, NaN where it says nothing."""
Column = Callable[[Values], Array]


@dataclass(frozen=True, slots=True)
class Measure:
    """A ratio of totals.

    Attributes:
        name: as in table.csv.
        unit: of the ratio.
        up: whether more of it is better.
        top, bottom: what is summed over requests, from columns of items.csv.
        timed: whether it is a time, and so depends on what else the machine did.
        missing: why there may be nothing to compare.
    """

    name: str
    unit: str
    up: bool
    top: Column
    bottom: Column
    timed: bool
    missing: str


def _one(of: Values) -> Array:
    return np.ones(len(of("first_token_ns")))


def decode_tokens(of: Values) -> Array:
    """Tokens with a decode time; unknown where there are none."""
    tokens = of("decode_tokens")
    return np.where(tokens > 0, tokens, np.nan)


NO_STEPS = "the engine does not tell steps and tokens per request"
NOT_DRAFTED = "nothing was drafted"
NO_TIMES = "no request has two arrivals"

MEASURES = {
    measure.name: measure
    for measure in (
        Measure(
            "accept_length",
            "tokens/step",
            True,
            lambda of: of("committed"),
            lambda of: of("steps"),
            False,
            NO_STEPS,
        ),
        Measure(
            "accept_rate",
            "1",
            True,
            lambda of: of("accepted"),
            lambda of: of("judged"),
            False,
            NOT_DRAFTED,
        ),
        Measure(
            "itl",
            "ms",
            False,
            lambda of: of("decode_ns") / NS_PER_MS,
            decode_tokens,
            True,
            NO_TIMES,
        ),
        Measure(
            "ttft",
            "ms",
            False,
            lambda of: of("first_token_ns") / NS_PER_MS,
            _one,
            True,
            "no request has a first token",
        ),
        Measure(
            "tokens_per_s_user",
            "1/s",
            True,
            decode_tokens,
            lambda of: of("decode_ns") / NS_PER_S,
            True,
            NO_TIMES,
        ),
        Measure(
            "tokens_per_s_e2e",
            "1/s",
            True,
            lambda of: of("output_tokens"),
            lambda of: of("last_token_ns") / NS_PER_S,
            True,
            "no request has a first token",
        ),
    )
}
"""Name -> measure. ``speedup`` is a ratio of two of these and has a place of its own."""
SPEEDUP = "speedup"
DEFAULT = ("accept_length", "accept_rate", "itl", "ttft", SPEEDUP)
"""What is compared where nothing is asked for, with the scores of answers where there are any."""

"""What two arms are compared in: totals per request, and which direction is the better one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

NS_PER_MS, NS_PER_S = 1e6, 1e9
Column = Callable[[pd.DataFrame], "pd.Series[Any]"]


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


def _one(rows: pd.DataFrame) -> pd.Series[Any]:
    return pd.Series(1.0, index=rows.index)


def _decode_tokens(rows: pd.DataFrame) -> pd.Series[Any]:
    return rows["decode_tokens"].where(rows["decode_tokens"] > 0)


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
            lambda rows: rows["committed"],
            lambda rows: rows["steps"],
            False,
            NO_STEPS,
        ),
        Measure(
            "accept_rate",
            "1",
            True,
            lambda rows: rows["accepted"],
            lambda rows: rows["judged"],
            False,
            NOT_DRAFTED,
        ),
        Measure(
            "itl",
            "ms",
            False,
            lambda rows: rows["decode_ns"] / NS_PER_MS,
            _decode_tokens,
            True,
            NO_TIMES,
        ),
        Measure(
            "ttft",
            "ms",
            False,
            lambda rows: rows["first_token_ns"] / NS_PER_MS,
            _one,
            True,
            "no request has a first token",
        ),
        Measure(
            "tokens_per_s_user",
            "1/s",
            True,
            _decode_tokens,
            lambda rows: rows["decode_ns"] / NS_PER_S,
            True,
            NO_TIMES,
        ),
        Measure(
            "tokens_per_s_e2e",
            "1/s",
            True,
            lambda rows: rows["output_tokens"],
            lambda rows: rows["last_token_ns"] / NS_PER_S,
            True,
            "no request has a first token",
        ),
    )
}
"""Name -> measure. ``speedup`` is a ratio of two of these and has a place of its own."""
SPEEDUP = "speedup"
DEFAULT = ("accept_length", "accept_rate", "itl", "ttft", SPEEDUP)
"""What is compared where nothing is asked for, with the scores of answers where there are any."""

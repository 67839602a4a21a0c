"""The listed tokens of one row from whatever pairs a server gives."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from specbench.errors import SpecbenchError
from specbench.fidelity.kept import TopRow

_NEVER = -1e4
"""Below the logarithm of every probability that any row holds; servers write -inf in many ways."""


def listed(
    pairs: Iterable[tuple[int, float]], top: int, rounding: float, vocabulary: int | None = None
) -> TopRow:
    """The ``top`` likeliest of the given tokens, as a row.

    Args:
        pairs: ids and natural logarithms, in any order, more than ``top`` allowed.
        top: how many the server was asked for: any further one is there because it was emitted.
        vocabulary: how many tokens there are; None = not known.

    Raises:
        SpecbenchError: no token, or a number that is no logarithm of a probability.
    """
    ordered = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:top]
    logs = np.array([log for _, log in ordered], dtype=np.float64)
    if not len(logs) or not bool(np.isfinite(logs).all()) or logs[0] > rounding:
        raise SpecbenchError("the server lists no log-probabilities for a token of the prompt")
    alive = logs > _NEVER
    ids = np.array([token for token, _ in ordered], dtype=np.int64)[alive]
    return TopRow(ids, np.minimum(logs[alive], 0.0), vocabulary, rounding)

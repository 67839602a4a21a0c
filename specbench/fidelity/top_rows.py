"""Evidence of one token from the listed part of a row: a coarser law, exact or within bounds.

Tokens that are not listed are one outcome, the rest. If every token follows the target, then the
coarser outcomes follow the coarser law, so that every test holds on them; what happens among
unlisted tokens is not seen. The list has to be the same whatever was emitted: a token that a server
adds because it was emitted counts as rest.

At temperature 1 the mass of the rest is known. Elsewhere its share lies in a range
(``fidelity.kept``), and so does the truth: in the hull of a few laws. The numbers are taken from
one law in its middle. Scores, bets and orders made from it are fixed before the token is drawn, so
that only their means can be wrong, by as much as they differ between the laws of the hull.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.core.request import Sampling
from specbench.fidelity.kept import Kept, TopRow, kept

Floats = NDArray[np.float64]
_SMALLEST = 1e-38


@dataclass(frozen=True, slots=True)
class RowLaw:
    """The coarser law of one position and where the emitted token lies in it.

    Logarithms are natural, entropies in nats; the first eight are as in ``core.trace.Evidence``.

    Attributes:
        log_target: of the emitted token or the rest; None where the truncation cuts it.
        pit_low, pit_width: its interval, likeliest first, the rest last.
        log_untempered: at temperature 1; None where the settings are just that, or at mass 0.
        support_margin: how far a cut token lies beyond the border, in nats; None elsewhere.
        log_doubt: largest error of ``log_target``; infinite where its mass may be 0.
        entropy_doubt: largest error of ``entropy`` as the mean of minus ``log_target``.
        pit_doubt: largest error of the distribution function that the PIT is made with.
        excess: by how much the mean of alternative / target may exceed 1, at most, for the
            alternatives of the e-process.
        tail: mass of the rest at temperature 1, at most.
        listed: whether the emitted token is listed.
    """

    log_target: float | None
    entropy: float
    entropy_variance: float
    sum_squares: float
    pit_low: float
    pit_width: float
    target_top: float
    target_top_hit: int
    log_untempered: float | None
    support_margin: float | None
    log_doubt: float
    entropy_doubt: float
    pit_doubt: float
    excess: float
    tail: float
    listed: bool


@dataclass(frozen=True, slots=True)
class GreedyRow:
    """Margin of the first two choices in nats, the second, and whether the first was emitted."""

    margin: float
    runner_up: int
    hit: int


def greedy_row(row: TopRow, token: int) -> GreedyRow:
    """What a row says at temperature 0; differences of logarithms are differences of logits.

    Raises:
        ValueError: the row lists one token only.
    """
    if len(row.ids) < 2:
        raise ValueError("two tokens per position are needed at temperature 0")
    first, second = row.ids[:2]
    return GreedyRow(float(row.logs[0] - row.logs[1]), int(second), int(token == first))


def row_law(row: TopRow, token: int, sampling: Sampling) -> RowLaw:
    """The coarser law of a row under temperature, top-k, top-p and min-p.

    Args:
        token: the emitted id.
        sampling: a temperature above 0; penalties are not applied here.
    """
    found = kept(row, sampling)
    law, hull = _laws(found)
    places = np.flatnonzero(row.ids[: found.most] == token)
    # The last outcome is the rest; a listed token behind the border has no place.
    listed = token in row.ids
    place = int(places[0]) if len(places) else len(law) - 1
    cut = law[place] == 0 or (listed and not len(places))
    score = -np.log(law, out=np.zeros_like(law), where=law > 0)
    entropy, squares = float(law @ score), float(law @ law)
    shaped = sampling.temperature != 1 or not sampling.untruncated
    untempered = np.append(np.exp(row.logs[: found.most]), _rest_mass(row, found.most))
    ratios = [law / squares, np.eye(1, len(law))[0] / law[0]]
    ratios += [np.divide(untempered, law, out=np.zeros_like(law), where=law > 0)] if shaped else []
    own = hull[:, place]
    return RowLaw(
        log_target=None if cut else -float(score[place]),
        entropy=entropy,
        entropy_variance=float((hull @ (score - entropy) ** 2).max()),
        sum_squares=squares,
        # Behind everything is where a token that was cut would be.
        pit_low=1.0 if cut else min(1.0, float(law[:place].sum())),
        pit_width=0.0 if cut else float(law[place]),
        target_top=float(law[0]),
        target_top_hit=int(token == row.ids[0]),
        log_untempered=_log(_plain_mass(row, token)) if shaped else None,
        support_margin=_margin(row, token, found, sampling) if cut else None,
        log_doubt=0.0 if cut else _log_doubt(float(law[place]), own),
        entropy_doubt=float(np.abs((hull - law) @ score).max()),
        pit_doubt=float(np.abs((hull - law).cumsum(1)).max()),
        excess=max(0.0, *(float((hull @ ratio).max()) - 1 for ratio in ratios)),
        tail=row.rest.high,
        listed=listed,
    )


def _laws(found: Kept) -> tuple[Floats, Floats]:
    """The law in the middle [most + 1], its last entry the rest, and the corners of the hull."""
    corners, law = [], np.zeros(0)
    for count in range(max(found.fewest, 1), found.most + 1):
        listed = np.zeros(found.most + 1)
        listed[:count] = found.weights[:count]
        total = float(listed.sum())
        low, high = (_share(end, total) for end in (found.rest.low, found.rest.high))
        rest = np.eye(1, found.most + 1, found.most)[0]
        laws = [listed / total * (1 - s) + rest * s for s in (low, (low + high) / 2, high)]
        corners += [laws[0], laws[2]]
        law = laws[1]
    return law, np.stack(corners)


def _share(rest: float, listed: float) -> float:
    return 1.0 if math.isinf(rest) else rest / (rest + listed)


def _log_doubt(mass: float, corners: Floats) -> float:
    low, high = float(corners.min()), float(corners.max())
    return math.inf if low == 0 else max(math.log(mass / low), math.log(high / mass))


def _rest_mass(row: TopRow, count: int) -> float:
    """Mass at temperature 1 of everything behind the first ``count`` listed tokens."""
    return max(0.0, 1 - float(np.exp(row.logs[:count]).sum()))


def _plain_mass(row: TopRow, token: int) -> float:
    """Mass at temperature 1 of a listed token, or of all that is not listed."""
    places = np.flatnonzero(row.ids == token)
    if len(places):
        return min(1.0, float(np.exp(row.logs[places[0]])))
    return _rest_mass(row, len(row.ids))


def _log(mass: float) -> float | None:
    return math.log(mass) if mass > 0 else None


def _margin(row: TopRow, token: int, found: Kept, sampling: Sampling) -> float:
    """How far a cut token lies beyond the border that cuts most, in nats; at most 0.

    As ``decoding.token_columns`` has it. An unlisted token counts as likely as the last listed
    one, so that it is never put further outside than it is.
    """
    places, weights = np.flatnonzero(row.ids == token), found.weights
    own = float(weights[places[0]] if len(places) else weights[-1])
    if own == 0:
        return -math.inf
    margins = [0.0]
    if sampling.min_p > 0:
        margins.append(math.log(own / sampling.min_p))
    count = len(weights)
    if 0 < sampling.top_k <= count:
        margins.append(math.log(own / float(weights[sampling.top_k - 1])))
        count = sampling.top_k
    if sampling.top_p < 1:
        first = weights[:count]
        share = float(first[first > own].sum() / (first.sum() + found.unlisted.high))
        margins.append((sampling.top_p - share) / max(share * (1 - share), _SMALLEST))
    return min(margins)

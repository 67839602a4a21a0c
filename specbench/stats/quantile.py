"""Weighted quantiles and their intervals: one definition for every latency.

The q-quantile is the smallest observed value whose cumulative weight reaches q of the total (the
inverse of the empirical distribution; Hyndman and Fan 1996, type 1). It is always a value that was
observed, never an interpolation between two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specbench.core.quantity import Quantity, nothing
from specbench.stats.bootstrap import FEWEST_UNITS, LEVEL
from specbench.stats.nested import nested_counts, several

RESAMPLES = 999
FEWEST_IN_TAIL = 5
"""Fewer observations than this beyond the quantile, and a bootstrap interval would be fiction."""
_CELLS = 4_000_000
_SLACK = 1e-12  # q * total may round to just above an integer weight


def weighted_quantile(values: ArrayLike, weights: ArrayLike, q: float) -> float:
    """Smallest value whose cumulative weight is at least ``q`` times the total weight.

    Args:
        values: observations, at least one.
        weights: non-negative weights, e.g. the tokens that one gap stands for.
        q: 0 < q <= 1.
    """
    observed, held = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    order = np.argsort(observed, kind="stable")
    cumulative = np.cumsum(held[order])
    index = np.searchsorted(cumulative, q * cumulative[-1] * (1 - _SLACK))
    return float(observed[order][index])


def quantile_intervals(
    values: ArrayLike,
    weights: ArrayLike,
    clusters: ArrayLike,
    qs: tuple[float, ...],
    *,
    seed: int,
    unit: str,
    level: float = LEVEL,
    groups: ArrayLike | None = None,
) -> list[Quantity]:
    """Weighted quantiles with percentile-bootstrap intervals that resample whole clusters.

    Args:
        values, weights: observations and what each counts for.
        clusters: integer label of the independent unit each observation belongs to, 0 .. n-1.
        qs: the quantiles wanted.
        seed: seed of the resampling.
        unit: unit of the values.
        level: coverage of the intervals.
        groups: label of each cluster's group (start of the server), drawn before the clusters;
            None or one label = one level.
    """
    observed, held = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    if len(observed) == 0:
        return [nothing("no observation", unit) for _ in qs]
    labels = np.asarray(clusters, np.int64)
    units = int(labels.max()) + 1
    points = [weighted_quantile(observed, held, q) for q in qs]
    if units < FEWEST_UNITS:
        why = f"no interval: {units} independent units, {FEWEST_UNITS} are needed"
        return [Quantity(point, unit, n=units, method=why) for point in points]
    rng = np.random.default_rng(seed)
    name = f"bootstrap-percentile over {units} units"
    if groups is not None and several(groups):
        starts = len(np.unique(np.asarray(groups)))
        name = f"bootstrap-percentile over {starts} starts, then {units} units"
        times = nested_counts(groups, RESAMPLES, rng)
    else:
        times = rng.multinomial(units, np.full(units, 1 / units), size=RESAMPLES)
    draws = _resampled(observed, held, labels, times, qs)
    tail = (1 - level) / 2
    found = []
    for column, (q, point) in enumerate(zip(qs, points, strict=True)):
        if len(observed) * min(q, 1 - q) < FEWEST_IN_TAIL:
            why = f"no interval: fewer than {FEWEST_IN_TAIL} observations in the tail"
            found.append(Quantity(point, unit, n=units, method=why))
            continue
        low, high = np.quantile(draws[:, column], [tail, 1 - tail], method="inverted_cdf")
        found.append(Quantity(point, unit, float(low), float(high), level, units, name))
    return found


def _resampled(
    values: NDArray[np.float64],
    weights: NDArray[np.float64],
    labels: NDArray[np.int64],
    times: NDArray[np.int64],
    qs: tuple[float, ...],
) -> NDArray[np.float64]:
    """Quantiles of the resamples, shape (RESAMPLES, len(qs)); in chunks to bound the memory."""
    order = np.argsort(values, kind="stable")
    sorted_values, sorted_weights, sorted_labels = values[order], weights[order], labels[order]
    draws = np.empty((RESAMPLES, len(qs)))
    chunk = max(1, _CELLS // len(values))
    for start in range(0, RESAMPLES, chunk):
        drawn = times[start : start + chunk][:, sorted_labels] * sorted_weights
        cumulative = np.cumsum(drawn, axis=1)
        for column, q in enumerate(qs):
            reached = cumulative >= q * cumulative[:, -1:] * (1 - _SLACK)
            draws[start : start + chunk, column] = sorted_values[reached.argmax(axis=1)]
    return draws

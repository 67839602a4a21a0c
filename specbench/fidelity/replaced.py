"""What a two-sample test would have caught: the power against replaced outputs, by simulation."""

from __future__ import annotations

import numpy as np

from specbench.fidelity.relabel import SLACK, Relabelling, Statistic, evaluate

POWER = 0.9
SIMULATED = 100
"""Simulated samples per share that is tried."""
FEWEST_NULL = 20
"""Fewest relabellings per simulated sample; their mean centres it."""
BISECTIONS = 6


def detectable_share(
    relabelling: Relabelling, statistic: Statistic, level: float, seed: int
) -> float | None:
    """Smallest share of replaced outputs that is found at ``level`` with 90 % power.

    Simulated from the pooled sample: a random relabelling is a draw from the null hypothesis of
    the true group sizes; each output that it gives to the arm is then replaced with probability
    ``share`` (see ``relabel.Terms``), which moves the arm's law by a total variation of ``share``.
    The result does not depend on which observed output was whose, so it is no second look at what
    was found. It is bisected to 1/64 and rounded up.

    Returns:
        The share; None where it would have to be 1, or even that is not found.
    """
    if relabelling.smallest_p(statistic) > level:
        return None
    simulation = _Simulation(relabelling, seed)
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if simulation.power(statistic, middle, level) < POWER:
            low = middle
        else:
            high = middle
    return high if high < 1 else None


class _Simulation:
    """Samples from the null, and the outputs that get replaced in each; the same for all shares."""

    def __init__(self, relabelling: Relabelling, seed: int) -> None:
        rng = np.random.default_rng([seed, 1])
        null = max(FEWEST_NULL, -(-relabelling.permutations // SIMULATED))
        shape = (SIMULATED, 1 + null)
        self._drawn = [own[rng.integers(1, len(own), shape)] for own in relabelling.labels]
        self._luck = [rng.random((SIMULATED, own.shape[1])) for own in relabelling.labels]

    def power(self, statistic: Statistic, share: float, level: float) -> float:
        """Share of simulated samples that are rejected.

        Every sample has a few relabellings of its own. Their differences from its mean are pooled
        over samples, as the replaced outputs shift a sample's values far more than they change
        their spread. The factor gives a relabelling, which is part of that mean, the spread that
        the observed labels have around it.
        """
        rows, kept = [], []
        for drawn, luck in zip(self._drawn, self._luck, strict=True):
            replaced = drawn[:, :1] & (luck < share)[:, None]
            rows.append(drawn.reshape(-1, drawn.shape[2]))
            kept.append(np.broadcast_to(~replaced, drawn.shape).reshape(rows[-1].shape))
        values = evaluate(statistic, rows, kept).reshape(SIMULATED, -1)
        centre = values[:, 1:].mean(axis=1, keepdims=True)
        null = values.shape[1] - 1
        others = np.sort(((values[:, 1:] - centre) * null / (null - 1)).ravel())
        observed = values[:, 0] - centre[:, 0]
        as_large = len(others) - np.searchsorted(others, observed - SLACK)
        return float(np.mean((1 + as_large) / (1 + len(others)) <= level))

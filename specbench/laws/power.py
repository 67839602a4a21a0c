"""How often fidelity tests cry wolf, and how many tokens they need to find a defect.

Level: right samplers are judged again and again; every alarm is false. Power: broken samplers emit
until the e-process, which may be watched at every token, or the support test finds them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from torch import Tensor

from specbench.fidelity.columns import Columns
from specbench.fidelity.eprocess import EProcess
from specbench.fidelity.verdict import Status, judge
from specbench.laws.defects import Sampler
from specbench.laws.positions import Positions

LEVEL = 0.01
"""False alarms that a verdict allows itself."""
MOST_ALARMS = 0.02
"""Share of false alarms over all repeats that the self-test accepts."""
DETECTION = 1e-3
"""Level of the e-process at which a defect counts as found."""
PATIENCE = 4
"""A run gives up after so many times the limit of its defect."""


@dataclass(frozen=True, slots=True)
class Level:
    """False alarms of one right sampler: ``alarms`` of ``runs`` of ``tokens`` tokens each."""

    sampler: str
    runs: int
    tokens: int
    alarms: int


@dataclass(frozen=True, slots=True)
class Power:
    """Tokens until one defect was found.

    Attributes:
        median, quarter, three_quarters: of tokens until detection; infinite where a run gave up.
        found: share of runs that found it.
        limit: what the median must not exceed.
    """

    sampler: str
    runs: int
    median: float
    quarter: float
    three_quarters: float
    found: float
    limit: int

    @property
    def spread(self) -> str:
        """Median with quartiles; "never" for a quantile that was not reached."""
        words = [
            f"{value:.0f}" if math.isfinite(value) else "never"
            for value in (self.median, self.quarter, self.three_quarters)
        ]
        return f"{words[0]} [{words[1]}, {words[2]}]"

    @property
    def good(self) -> bool:
        """Whether the defect is found soon enough."""
        return self.median <= self.limit


def passes(
    sampler: Sampler, positions: Positions, generator: np.random.Generator
) -> Iterator[Columns]:
    """Endless evidence: all positions in a new random order, again and again.

    Args:
        positions: as the sampler's engine declares them, see ``Sampler.setting``.
    """
    while True:
        tokens: Tensor = sampler.emit(positions, generator)
        found = positions.columns(tokens, generator)
        order = generator.permutation(len(found))
        yield Columns(*(getattr(found, f.name)[order] for f in fields(Columns)))


def level(
    sampler: Sampler, positions: Positions, runs: int, generator: np.random.Generator
) -> Level:
    """Judge a right sampler ``runs`` times, one pass over the positions each."""
    setting = sampler.setting(positions)
    emitted = passes(sampler, setting, generator)
    verdicts = (judge({sampler.name: next(emitted)}, LEVEL)[sampler.name] for _ in range(runs))
    alarms = sum(verdict.status is Status.FAILED for verdict in verdicts)
    return Level(sampler.name, runs, len(positions.logits), alarms)


def power(
    sampler: Sampler, positions: Positions, runs: int, generator: np.random.Generator, limit: int
) -> Power:
    """Let a broken sampler emit ``runs`` times until it is found; ``limit`` is the sampler's."""
    setting = sampler.setting(positions)
    most = limit * PATIENCE
    needed = [_tokens_needed(passes(sampler, setting, generator), most) for _ in range(runs)]
    quarter, median, three_quarters = np.quantile(needed, [0.25, 0.5, 0.75], method="higher")
    return Power(
        sampler.name,
        runs,
        float(median),
        float(quarter),
        float(three_quarters),
        sum(map(math.isfinite, needed)) / runs,
        limit,
    )


def _tokens_needed(emitted: Iterator[Columns], most: int) -> float:
    """Tokens up to the first detection; infinite where ``most`` do not suffice."""
    watched, seen = EProcess(), 0
    while seen < most:
        columns = next(emitted)
        watched.update(columns)
        found = [int(index) + seen for index in np.flatnonzero(columns.outside)[:1]]
        crossing = watched.detected_at(DETECTION)
        if crossing is not None:
            found.append(crossing)
        if found:
            # A pass may reach beyond the last token that counts.
            needed = min(found) + 1.0
            return needed if needed <= most else math.inf
        seen += len(columns)
    return math.inf

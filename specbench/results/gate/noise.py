"""How much runs of one experiment differ when nothing was changed: A/A runs of the baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from specbench.results.compare.joined import BASE, NEW, Joined, Places
from specbench.results.compare.rows import STEP_COUNTS
from specbench.results.compare.split import SOUND, Group, groups
from specbench.results.compare.totals import Absent, totals_of


@dataclass(frozen=True, slots=True)
class Noise:
    """What A/A runs showed of one measure and group.

    Attributes:
        changes: log ratio of each A/A run to the baseline.
        exact: whether they counted the same in every request.
    """

    changes: tuple[float, ...]
    exact: bool

    def width(self, level: float) -> float:
        """Half the width that runs add to an interval of a log ratio; 0 without A/A runs.

        Student's t over the runs: their root mean square is the spread between runs, and few runs
        know it badly.
        """
        count = len(self.changes)
        if not count:
            return 0.0
        spread = math.sqrt(sum(change**2 for change in self.changes) / count)
        return float(scipy.stats.t.ppf((1 + level) / 2, count)) * spread


NOTHING = Noise((), False)


def noise(unchanged: Sequence[Joined], measure: str, by: str) -> dict[Group, Noise]:
    """What A/A runs showed, by group of requests.

    Args:
        unchanged: the baseline joined with each of them.
    """
    found: dict[Group, tuple[list[float], list[bool]]] = {}
    for joined in unchanged:
        for group, places in groups(joined, by):
            if group.name == SOUND:
                continue  # no gate asks for it
            made = totals_of(measure, joined, places)
            changes, exact = found.setdefault(group, ([], []))
            if not isinstance(made, Absent):
                before, after = made.values
                changes.append(math.log(after.number() / before.number()))
            exact.append(same_counts(joined, places))
    return {group: Noise(tuple(c), all(e)) for group, (c, e) in found.items()}


def same_counts(joined: Joined, places: Places) -> bool:
    """Whether both sides counted the same steps and tokens in every one of these requests."""
    one, other = (joined.of(side, places) for side in (BASE, NEW))
    # An unknown count is a NaN, which equals nothing.
    return all(np.array_equal(one(name), other(name)) for name in STEP_COUNTS)

"""Resamples on two levels: groups with replacement, then the units inside each drawn group.

Server starts are a random effect: all prompts that one start decodes share its luck. Resampling
prompts alone takes that luck for a property of the arm. Davison and Hinkley 1997, section 3.8
(hierarchical data, "with replacement at both levels").

Known bias. With G groups the plug-in variance between groups is (G - 1) / G of the unbiased one:
with 2 starts the interval shows half of the start-to-start variance, with 5 starts four fifths.
The groups' means also hold the noise of their units, which is then drawn again: where starts do
not differ at all, variances come out too large by up to the same share, (G - 1) / G.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def several(groups: ArrayLike | None) -> bool:
    """Whether there is a second level to resample."""
    return groups is not None and len(np.unique(np.asarray(groups))) > 1


def nested_counts(groups: ArrayLike, resamples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How often each unit is drawn in each resample, int64 [resamples, units].

    As many groups are drawn as there are, and from each drawn one as many units as it holds; a
    group that is drawn twice has its units drawn anew.

    Args:
        groups: label of the group of each unit, at least one unit.
    """
    _, labels = np.unique(np.asarray(groups), return_inverse=True)
    count = int(labels.max()) + 1
    times = np.zeros((resamples, len(labels)), np.int64)
    drawn = rng.multinomial(count, np.full(count, 1 / count), size=resamples)
    for group in range(count):
        members = np.flatnonzero(labels == group)
        share = np.full(len(members), 1 / len(members))
        # A group drawn m times gives m independent multinomials: together one of m times the size.
        sizes = drawn[:, group] * len(members)
        times[:, members] = rng.multinomial(sizes, share)
    return times

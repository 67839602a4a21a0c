"""Accept length with less chance in it: acceptance that was drawn, held against what was expected.

Under ``rejection`` a draft is accepted with probability sum min(p, q), given what was drafted
(Leviathan and others 2211.17192, corollary 3.6). What was accepted minus the sum of these has mean
0 whatever the drafts were, and moves with the committed tokens: a control variate (Glasserman 2003,
section 4.1). Taking the part of it that goes with the committed tokens off leaves their mean as it
is and narrows the interval.
"""

from __future__ import annotations

import numpy as np

from specbench.results.compare.joined import BASE, NEW, Joined, Places
from specbench.results.compare.measures import Values
from specbench.results.compare.units import Units
from specbench.stats.ratios import Array

FEWEST = 8
"""Units below which the weight of the control variate is not estimated."""

Side = tuple[Array, Array]


def narrowed(
    joined: Joined, places: Places, units: Units, base: Side, new: Side
) -> tuple[Side, Side, str]:
    """Committed tokens and steps by unit, the former with less chance in them where that is known.

    Args:
        places: requests with counts on both sides.
        units: theirs.
        base, new: committed tokens and steps of each side, by unit.

    Returns:
        Both sides, and words for the method; as they were where an engine does not record both
        laws, where temperature 0 leaves nothing to chance, or where another rule decided.
    """
    found, count = [], 0
    sides = zip((BASE, NEW), (base, new), joined.by_overlap, strict=True)
    for side, (committed, steps), by_overlap in sides:
        chance = _chance(joined.of(side, places), units) if by_overlap else None
        if chance is None or len(steps) < FEWEST or not chance.any():
            found.append((committed, steps))
            continue
        rest = committed - steps * committed.sum() / steps.sum()
        weight = float(rest @ chance) / float(chance @ chance)
        found.append((committed - weight * chance, steps))
        count += 1
    method = f"; chance of acceptance taken off on {count} of 2 sides" if count else ""
    return found[0], found[1], method


def _chance(of: Values, units: Units) -> Array | None:
    """Accepted minus expected, by unit; None where a request does not tell it."""
    drafted, told = of("judged") > 0, ~np.isnan(of("visited"))
    if not told.any() or (drafted & ~told).any():
        return None
    return units.summed(np.where(told, of("accepted") - of("overlap"), 0.0))

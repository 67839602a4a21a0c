"""What each look at data that still come in may spend of an error rate.

A test at level alpha that is asked again at every look finds more than alpha of nothing: five looks
at 5 % each, two-sided, make it 14 % (Armitage, McPherson and Rowe 1969). An error spending function
says how much of the rate may be gone once a share of the data is in (Lan and DeMets 1983). Here it
is alpha t^2, of the family of Kim and DeMets (1987): little early, where few units are seen and
only large differences should end a run, and most at the end.

Each look is tested at what it adds. All looks together then err with at most alpha by Bonferroni's
inequality, however they depend on each other. The recursion that wins some of the level back holds
for independent increments, which times of a machine that drifts and of servers that start anew do
not have.
"""

from __future__ import annotations

EXPONENT = 2.0


def spent(total: float, share: float) -> float:
    """How much of an error rate may be gone once a share of the data, 0 to 1, is in."""
    return float(total * min(1.0, max(0.0, share)) ** EXPONENT)


def added(total: float, before: float, now: float) -> float:
    """What a look at share ``now`` may spend where the one before was at share ``before``.

    The last look is at share 1, whenever it comes: what is left is its own.
    """
    return spent(total, now) - spent(total, before)

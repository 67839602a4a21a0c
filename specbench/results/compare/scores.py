"""Scores of answers on both sides: the paired difference, not a ratio."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specbench.core.quantity import Quantity, nothing
from specbench.quality import paired
from specbench.quality.definitions import CHRF, CODE, DEFINITIONS, JSON
from specbench.quality.score import NOT_EXECUTED
from specbench.results.compare.contrast import Contrast
from specbench.results.compare.joined import BASE, NEW, Joined, Places
from specbench.results.compare.units import Units
from specbench.stats.gap import detectable_gap

QUALITY = "quality"
"""Name of all scores together."""
KINDS = (CHRF, CODE, JSON)
"""Sentence chrF of translations, and shares of code and JSON that are right."""
NO_SCORES = "no answer of these requests is scored on both sides"


def kinds(joined: Joined, places: Places) -> list[str]:
    """How answers of these requests are scored, on both sides."""
    one, other = (joined.of(side, places)("scored_by") for side in (BASE, NEW))
    found = set(other[one == other])
    return [kind for kind in KINDS if kind in found]


def score_contrasts(joined: Joined, places: Places, seed: int, *, asked: bool) -> list[Contrast]:
    """One per kind of score that some of the joined requests have.

    Args:
        asked: say where there is none, for who has asked for them.
    """
    found = [_contrast(kind, joined, places, seed) for kind in kinds(joined, places)]
    return found or ([_missing(QUALITY, "1", NO_SCORES)] if asked else [])


def _contrast(kind: str, joined: Joined, places: Places, seed: int) -> Contrast:
    unit = DEFINITIONS[kind].unit
    sides = [joined.of(side, places) for side in (BASE, NEW)]
    chosen = np.all([(of("scored_by") == kind) & ~np.isnan(of("score")) for of in sides], axis=0)
    if not chosen.any():
        return _missing(kind, unit, NOT_EXECUTED)
    of_base, of_new = sides
    prompts = joined.prompts[places][chosen]
    items, units = list(map(str, prompts)), Units(prompts)
    base, new = (of("score")[chosen].tolist() for of in (of_base, of_new))
    gap, p = _difference(kind, new, base, items, seed)
    counts = units.summed(np.ones(len(items)))
    sums = [units.summed(np.array(side)) for side in (new, base)]
    power = detectable_gap(sums[0], counts, sums[1], counts, seed=seed, unit=unit)
    means = [Quantity(sum(side) / len(side), unit, n=len(counts)) for side in (base, new)]
    return Contrast(kind, means[0], means[1], gap, p.number(), power, up=True, neutral=0.0)


def _difference(
    kind: str, new: Sequence[float], base: Sequence[float], items: Sequence[str], seed: int
) -> tuple[Quantity, Quantity]:
    """Mean of new - base with its interval, and the test of it."""
    p = paired.p_value(new, base, items, seed=seed)
    if kind == CHRF:
        gap = paired.mean_difference(new, base, items, seed=seed, unit=DEFINITIONS[kind].unit)
        return gap, p
    return paired.share_difference(new, base, items, seed=seed), p


def _missing(kind: str, unit: str, why: str) -> Contrast:
    absent = nothing(why, unit)
    return Contrast(kind, absent, absent, absent, None, absent, up=True, neutral=0.0)

"""Scores of answers on both sides: the paired difference, not a ratio."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from specbench.core.quantity import Quantity, nothing
from specbench.quality import paired
from specbench.quality.definitions import CHRF, CODE, DEFINITIONS, JSON
from specbench.quality.score import NOT_EXECUTED
from specbench.results.compare.contrast import Contrast
from specbench.results.compare.joined import BASE, NEW, summed
from specbench.stats.gap import detectable_gap

QUALITY = "quality"
"""Name of all scores together."""
KINDS = (CHRF, CODE, JSON)
"""Sentence chrF of translations, and shares of code and JSON that are right."""
NO_SCORES = "no answer of these requests is scored on both sides"


def kinds(rows: pd.DataFrame) -> list[str]:
    """How answers of these joined requests are scored, on both sides."""
    same = rows[f"scored_by{BASE}"] == rows[f"scored_by{NEW}"]
    found = set(rows.loc[same, f"scored_by{NEW}"])
    return [kind for kind in KINDS if kind in found]


def score_contrasts(rows: pd.DataFrame, seed: int, *, asked: bool) -> list[Contrast]:
    """One per kind of score that these requests have.

    Args:
        asked: say where there is none, for who has asked for them.
    """
    found = [_contrast(kind, rows, seed) for kind in kinds(rows)]
    return found or ([_missing(QUALITY, "1", NO_SCORES)] if asked else [])


def _contrast(kind: str, rows: pd.DataFrame, seed: int) -> Contrast:
    unit = DEFINITIONS[kind].unit
    names = [f"score{BASE}", f"score{NEW}"]
    chosen = rows[(rows[f"scored_by{BASE}"] == kind) & (rows[f"scored_by{NEW}"] == kind)]
    chosen = chosen[chosen[names].notna().all(axis=1)]
    if chosen.empty:
        return _missing(kind, unit, NOT_EXECUTED)
    items = (chosen["suite"] + "/" + chosen["item"]).tolist()
    base, new = (chosen[name].tolist() for name in names)
    gap, p = _difference(kind, new, base, items, seed)
    labels = chosen["suite"] + "/" + chosen["item"]
    counts = summed(labels, pd.Series(1.0, index=chosen.index))
    sums = [summed(labels, chosen[name]) for name in reversed(names)]
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

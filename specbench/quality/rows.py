"""The statistics of one metric: value, plain, difference and p-value over the same requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from specbench.core.quantity import Quantity
from specbench.quality import paired
from specbench.quality.corpora import Score, corpus
from specbench.quality.pairs import Pairs
from specbench.quality.resample import resampled, swap_test
from specbench.quality.score import Scored
from specbench.quality.translation import Segment, bleu_scores, chrf_scores

Row = dict[str, Quantity]

_UNIT = "points"


def share_rows(pairs: Pairs, *, seed: int) -> Row:
    """Statistics of answers that are right or wrong; only ``value`` where plain is empty."""
    own, items = _values(pairs.arm), pairs.items
    row = {"value": paired.share(own, items, seed=seed)}
    if pairs.plain:
        other = _values(pairs.plain)
        row["plain"] = paired.share(other, items, seed=seed)
        row["difference"] = paired.share_difference(own, other, items, seed=seed)
        row["p"] = paired.p_value(own, other, items, seed=seed)
    return row


def json_rows(pairs: Pairs, *, seed: int) -> Row:
    """``share_rows``, and the share of the arm's answers with text around the object."""
    around = [float(scored.surrounded) for scored in pairs.arm]
    surrounded = paired.share(around, pairs.items, seed=seed)
    return share_rows(pairs, seed=seed) | {"surrounded": surrounded}


def chrf_rows(pairs: Pairs, *, seed: int) -> Row:
    """Corpus chrF, and the mean difference of the sentence scores."""
    row = _corpus_rows(pairs, lambda segment: segment.chrf, chrf_scores, seed)
    if pairs.plain:
        own, other = _values(pairs.arm), _values(pairs.plain)
        gap = paired.mean_difference(own, other, pairs.items, seed=seed, unit=_UNIT)
        row["sentence_difference"] = gap
    return row


def bleu_rows(pairs: Pairs, *, seed: int) -> Row:
    """Corpus BLEU of the answers that chrF is taken of."""
    return _corpus_rows(pairs, lambda segment: segment.bleu, bleu_scores, seed)


def _corpus_rows(
    pairs: Pairs, counts: Callable[[Segment], tuple[int, ...]], score: Score, seed: int
) -> Row:
    found = _segments(pairs.arm)
    languages = [segment.language for segment in found]
    own = corpus([counts(segment) for segment in found], languages, pairs.items, score)
    units = len(own.answers)
    row = {"value": resampled(own.scores, units, seed=seed, unit=_UNIT)}
    if pairs.plain:
        rows = [counts(segment) for segment in _segments(pairs.plain)]
        other = corpus(rows, languages, pairs.items, score)
        row["plain"] = resampled(other.scores, units, seed=seed, unit=_UNIT)
        row["difference"] = resampled(
            lambda weights: own.difference(other, weights), units, seed=seed, unit=_UNIT
        )
        if np.array_equal(own.counts, other.counts):
            row["difference"] = paired.all_equal(units, _UNIT)
        row["p"] = swap_test(lambda swaps: own.swapped(other, swaps), units, seed=seed)
    return row


def _values(side: Sequence[Scored]) -> list[float]:
    return [scored.value for scored in side if scored.value is not None]


def _segments(side: Sequence[Scored]) -> list[Segment]:
    return [scored.segment for scored in side if scored.segment is not None]

"""Corpus scores of two arms on the same items, and how they move when items are resampled.

A corpus score is no mean over its segments: a resample of items makes a corpus of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.quality.translation import Array

Score = Callable[[Array], Array]


@dataclass(frozen=True, slots=True)
class Corpus:
    """The segments of one arm, summed per item.

    Attributes:
        counts: [items, counts], what ``score`` takes.
        answers: [items], how many segments an item has.
        language: [items], the index of the item's target language.
        score: ``chrf_scores`` or ``bleu_scores``.
    """

    counts: Array
    answers: Array
    language: NDArray[np.int64]
    score: Score

    def scores(self, weights: Array) -> Array:
        """Corpus scores for weights [..., items], the number of times each item is drawn."""
        return _scores([(self, weights)])

    def difference(self, other: Corpus, weights: Array) -> Array:
        """This arm's corpus score minus the other's, for the same weights [..., items]."""
        return self.scores(weights) - other.scores(weights)

    def swapped(self, other: Corpus, swaps: Array) -> Array:
        """The difference with the arms changed in the items where swaps [..., items] is 1."""
        first = _scores([(self, 1.0 - swaps), (other, swaps)])
        return first - _scores([(self, swaps), (other, 1.0 - swaps)])


def corpus(
    counts: Sequence[Sequence[int]], languages: Sequence[str], items: Sequence[str], score: Score
) -> Corpus:
    """Sum the counts of segments per item; an item has one target language.

    Args:
        counts, languages, items: one entry per segment. Items and languages are numbered in order
            of first appearance, so two arms with equal ``items`` fit each other.
    """
    place = {item: index for index, item in enumerate(dict.fromkeys(items))}
    code = {language: index for index, language in enumerate(dict.fromkeys(languages))}
    rows = np.array([place[item] for item in items])
    summed = np.zeros((len(place), len(counts[0])))
    np.add.at(summed, rows, np.asarray(counts, dtype=np.float64))
    language = np.zeros(len(place), dtype=np.int64)
    language[rows] = [code[name] for name in languages]
    answers = np.bincount(rows, minlength=len(place)).astype(np.float64)
    return Corpus(summed, answers, language, score)


def _scores(parts: Sequence[tuple[Corpus, Array]]) -> Array:
    """Score of one corpus that takes the items of each part by weight [..., items]."""
    first, weights = parts[0]
    total: Array = np.zeros(weights.shape[:-1])
    answers: Array = np.zeros(weights.shape[:-1])
    for language in range(int(first.language.max()) + 1):
        here = first.language == language
        counts: Array = np.zeros((*weights.shape[:-1], first.counts.shape[1]))
        size: Array = np.zeros(weights.shape[:-1])
        for part, weight in parts:
            counts = counts + weight[..., here] @ part.counts[here]
            size = size + weight[..., here] @ part.answers[here]
        total = total + size * first.score(counts)
        answers = answers + size
    return total / answers

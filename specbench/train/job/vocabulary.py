"""Which tokens a head with a smaller vocabulary drafts: those that the target says most often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from specbench.train.data.asked import Answered


def count_tokens(answers: Iterable[Answered]) -> Counter[int]:
    """How often each token occurs in the target's answers (ALGORITHMS 5.3, draft vocabulary)."""
    counted: Counter[int] = Counter()
    for one in answers:
        counted.update(one.answer)
    return counted


def frequent_ids(counted: Counter[int], size: int, always: Sequence[int], rows: int) -> list[int]:
    """The ``size`` most frequent ids, sorted.

    Args:
        counted: occurrences.
        size: at most ``rows``.
        always: ids that are in whatever their count: without its end, no answer is drafted to it.
        rows: of the target's output projection. Where fewer kinds were counted the lowest ids fill
            up: merges of a byte-pair vocabulary are numbered by frequency.
    """
    chosen = dict.fromkeys([*always, *(i for i, _ in _by_frequency(counted))])
    chosen |= dict.fromkeys(range(rows))
    return sorted(list(chosen)[:size])


def _by_frequency(counted: Counter[int]) -> list[tuple[int, int]]:
    """Most frequent first; the lower id where two are as frequent."""
    return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


def outside_share(answers: Sequence[Answered], ids: Iterable[int]) -> dict[str, float]:
    """Share of answer tokens that a vocabulary lacks, by source; nothing is accepted there."""
    inside = frozenset(ids)
    tokens: Counter[str] = Counter()
    outside: Counter[str] = Counter()
    for one in answers:
        tokens[one.source] += len(one.answer)
        outside[one.source] += sum(token not in inside for token in one.answer)
    return {source: outside[source] / tokens[source] for source in tokens if tokens[source]}

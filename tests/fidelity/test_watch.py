"""Watching a run: one sentence per arm, at the token where its wealth reaches 1000."""

from __future__ import annotations

import math

import pytest

from specbench.fidelity.watch import ALPHA, Watch
from tests.fidelity.evident import coin, records
from tests.fidelity.simulated import cell, rows, speculate
from tests.metrics.traces import trace

STAKES = (0.005, 0.02, 0.05, 0.1, 0.2, 0.4)


def wealth(hits):
    """E by hand: half of it never moves, half is spread over the stakes on the first choice."""
    grown = [
        math.prod(1 + stake if hit else 1 - stake for hit in hits) / len(STAKES) for stake in STAKES
    ]
    return (1 + sum(grown)) / 2


def test_it_speaks_once_at_the_token_where_the_wealth_crosses():
    crossing = next(n for n in range(1, 100) if wealth([True] * n) >= 1 / ALPHA)
    assert 20 < crossing < 30
    watch = Watch()
    said = [watch.update(coin([True] * 10, f"p{i}")) for i in range(5)]
    assert said == [
        *("", ""),
        # Tokens of an arm are counted from 0.
        "arm mtp, temperature 0.7: the output is not the target's (E reached 1000 at token "
        f"{crossing - 1})",
        *("", ""),
    ]
    assert watch.largest == pytest.approx(math.log10(wealth([True] * 50)))


def test_the_largest_wealth_is_kept_and_starts_at_one():
    watch = Watch()
    assert watch.largest == 0.0
    hits = [True] * 8 + [False] * 8
    watch.update(coin(hits))
    best = max(wealth(hits[:n]) for n in range(17))
    assert watch.largest == pytest.approx(math.log10(best))
    assert wealth(hits) < best


def test_arms_and_temperatures_have_a_wealth_each_and_batches_none():
    watch = Watch()
    places = [
        {"arm": "mtp"},
        {"arm": "ngram"},
        {"arm": "mtp", "temperature": 1.0},
        {"arm": "mtp", "concurrency": 4},
    ]
    for place in places:
        assert watch.update(coin([True] * 20, **place)) == ""
    said = [watch.update(coin([True] * 20, "b", **place)) for place in places]
    # Requests of a batch end in an order that depends on their tokens.
    assert said.pop() == ""
    assert [text[: text.index(":")] for text in said] == [
        *("arm mtp, temperature 0.7", "arm ngram, temperature 0.7"),
        "arm mtp, temperature 1",
    ]


def test_records_without_evidence_and_damaged_ones_say_nothing():
    watch = Watch()
    silent = [
        trace("a", temperature=0.7, arrivals=[(100, 50)]),
        trace("a", temperature=0.0, arrivals=[(100, 50)]),
    ]
    damaged = coin([True] * 50)
    damaged.evidence.sum_squares[3] = 1.5
    for record in (*silent, damaged):
        assert watch.update(record) == ""
    assert watch.largest == 0.0


@pytest.mark.parametrize(
    ("defect", "named"), [({}, False), ({"lenience": 0.6}, True), ({"greedy_draft": True}, True)]
)
def test_honest_arms_are_not_named_and_broken_ones_are(defect, named):
    watch, size = Watch(), 50
    for seed, arm in enumerate("abcde"):
        whole = cell(rows(seed, 40 * size), speculate, seed + 100, **defect)
        said = [watch.update(one) for one in records(whole, size, arm=arm)]
        assert sum(bool(text) for text in said) == int(named)

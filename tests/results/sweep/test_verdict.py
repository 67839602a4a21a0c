"""What is recommended, from what the test split said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.results.summary import Figure
from specbench.results.sweep.candidates import named
from specbench.results.sweep.summary import Confirmed, Recommended
from specbench.results.sweep.verdict import recommend, stops_paying

K3 = named("ngram", 3)


def confirmed(low, value, high, **changes):
    figures = {"speedup": Figure(value, "x", low, high, 20)}
    return replace(
        Confirmed(4, "run", K3.name, "", "test", 20, figures, p=None if low is None else 0.01),
        **changes,
    )


def test_an_interval_above_1_recommends_the_candidate():
    found = recommend(4, K3, confirmed(1.05, 1.2, 1.3))
    assert (found.name, found.k, found.pays) == ("ngram-k3", 3, True)
    assert found.sentence == (
        "Load 4: ngram-k3 is recommended: 1.20x [95 % interval 1.05 to 1.30] plain on 20 prompts "
        "of the test split."
    )


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        ((0.98, 1.1, 1.2), "which shows no gain"),
        ((1.0, 1.1, 1.2), "which shows no gain"),
        ((0.8, 0.9, 0.95), "which is slower"),
        ((None, 1.4, None), "without an interval: too few units to show a gain"),
    ],
)
def test_anything_else_recommends_plain(interval, words):
    found = recommend(4, K3, confirmed(*interval))
    assert (found.name, found.k, found.pays) == ("plain", 0, False)
    assert found.sentence.endswith(f"{words}.")


def test_a_swap_test_that_disagrees_recommends_plain():
    # Three prompts under load may look like 1.85x: 2 / 2^3 is the smallest p they can have.
    found = recommend(4, K3, confirmed(1.17, 1.85, 2.41, p=0.25))
    assert found.name == "plain"
    assert "a swap test does not agree (p = 0.25)" in found.sentence


def test_figures_that_are_guarded_or_refused_recommend_plain():
    guarded = recommend(4, K3, confirmed(1.1, 1.2, 1.3, guards=("suspicious_full",)))
    assert guarded.name == "plain"
    assert "not to be trusted (suspicious_full)" in guarded.sentence
    slow = recommend(4, K3, confirmed(1.1, 1.2, 1.3, refused="80% of its requests keep itl"))
    assert slow.name == "plain"
    assert "but 80% of its requests keep itl" in slow.sentence


def test_what_does_not_keep_the_objectives_is_never_recommended():
    both = recommend(4, K3, confirmed(1.1, 1.2, 1.3, refused="misses", plain_refused="misses too"))
    assert (both.name, both.pays) == ("", False)
    # Not shown to be faster, but the only one in time.
    alone = recommend(4, K3, confirmed(0.9, 1.1, 1.3, plain_refused="misses"))
    assert (alone.name, alone.pays) == ("ngram-k3", False)


def test_no_candidate_recommends_plain_with_the_reasons():
    found = recommend(4, None, None, ["ngram-k3: 1 of 4 requests failed"])
    assert found.name == "plain"
    assert "ngram-k3: 1 of 4 requests failed" in found.sentence


def test_a_runner_up_that_did_better_is_told_and_not_taken():
    figures = {
        "speedup": Figure(1.2, "x", 1.1, 1.3, 20),
        "runner": Figure(1.1, "x", 1.02, 1.2, 20),
    }
    found = recommend(4, K3, confirmed(0, 0, 0, figures=figures, runner="ngram-k5"))
    assert found.name == "ngram-k3"
    assert "the runner-up ngram-k5 ran at 1.10x" in found.sentence
    assert "more dev prompts" in found.sentence


@pytest.mark.parametrize(
    ("pays", "load"),
    [
        ([True, True, False], 16),
        ([True, False, False], 4),
        ([False, False, False], 1),
        ([True, True, True], None),
        ([False, True, False], 16),
    ],
)
def test_where_speculation_stops_paying(pays, load):
    answers = [
        Recommended(at, "x", 1, None, each, "") for at, each in zip((1, 4, 16), pays, strict=True)
    ]
    assert stops_paying(answers) == load

"""Figures of a replay from sums that are written down."""

from __future__ import annotations

import pytest

from specbench.core.request import RequestKey
from specbench.metrics.replayed import (
    DraftScore,
    ReplayedRequest,
    Steps,
    length_difference,
    outside_vocabulary,
    replayed_alpha,
    replayed_length,
    without_draft,
)


def one(item, tokens, steps, *, repeat=0, **score):
    made = DraftScore(steps={2: Steps(steps, ())}, **score)
    other = DraftScore(steps={2: Steps(float(tokens), ())})
    key = RequestKey("code", item, 0, 0.0, repeat)
    return ReplayedRequest(key, tokens, 0, {"draft": made, "plain": other})


REQUESTS = [
    one("a", 10, 4.0, places=9, empty=3, overlap=[5.0, 1.0], reached=[6.0, 2.0]),
    one("a", 6, 4.0, repeat=1, places=5, empty=0, overlap=[2.0], reached=[5.0]),
    one("b", 8, 2.0, places=7, empty=1, overlap=[6.0, 4.0], reached=[6.0, 5.0], outside=2),
    one("c", 12, 6.0, places=11, empty=2, overlap=[3.0, 0.5], reached=[9.0, 1.0]),
]


def test_figures_are_ratios_of_totals_over_prompts():
    length = replayed_length(REQUESTS, "draft", 2, seed=1)
    assert (length.number(), length.n, length.unit) == (36 / 16, 3, "tokens/step")
    assert length.low < 36 / 16 < length.high
    assert replayed_alpha(REQUESTS, "draft", 2, 1, seed=1).number() == 16 / 26
    assert replayed_alpha(REQUESTS, "draft", 2, 2, seed=1).number() == 5.5 / 8
    assert without_draft(REQUESTS, "draft", 2, seed=1).number() == 6 / 32
    assert outside_vocabulary(REQUESTS, "draft", seed=1).number() == 2 / 40


def test_the_difference_is_paired():
    gap = length_difference(REQUESTS, "draft", "plain", 2, seed=1)
    assert gap.number() == 36 / 16 - 1
    # Plain takes a step per token in every prompt, so that all of the spread is the draft's.
    own = replayed_length(REQUESTS, "draft", 2, seed=1)
    assert (gap.low, gap.high) == pytest.approx((own.low - 1, own.high - 1), abs=1e-12)


def test_what_was_not_seen_has_a_reason():
    deep = replayed_alpha(REQUESTS, "draft", 2, 3, seed=1)
    assert deep.value.reason == "no draft reached depth 3"
    assert "no place" in without_draft(REQUESTS, "plain", 2, seed=1).value.reason
    assert not replayed_length([], "draft", 2, seed=1).known
    assert not length_difference([], "draft", "plain", 2, seed=1).known


@pytest.mark.parametrize("cut", [True, False])
def test_sums_of_the_longest_draft_are_those_of_shorter_ones_that_begin_it(cut):
    """Where shorter drafts are others, nothing is known of them but their steps."""
    steps = {1: Steps(5.0, ()), 2: Steps(4.0, ())}
    score = DraftScore(steps, 9, 3, [5.0, 1.0], [6.0, 2.0], cut=cut)
    requests = [ReplayedRequest(RequestKey("code", "a", 0, 0.0, 0), 10, 0, {"draft": score})]
    short = (
        replayed_alpha(requests, "draft", 1, 1, seed=1),
        without_draft(requests, "draft", 1, seed=1),
    )
    if cut:
        assert [one.number() for one in short] == [5 / 6, 3 / 9]
    else:
        assert all("shorter drafts are other drafts" in one.value.reason for one in short)
    assert replayed_alpha(requests, "draft", 2, 1, seed=1).number() == 5 / 6
    assert replayed_alpha(requests, "draft", 2, 2, seed=1).number() == 1 / 2
    assert replayed_length(requests, "draft", 1, seed=1).number() == 2.0

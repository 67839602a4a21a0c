"""H9: drafts that never help and drafts that always do, on chains and on trees."""

from __future__ import annotations

import pytest

from specbench.measure.guards.drafts import draft_guards
from specbench.measure.guards.guard import Around
from specbench.metrics.acceptance import accept_length
from specbench.results.verdict import EXPLAINED
from tests.metrics.traces import SEED, trace


def codes(arm, draft_is_target=False, k=0):
    return {guard.code for guard in draft_guards([arm], Around(k=k), draft_is_target)}


def tree(steps, nodes, depth, accepted):
    """Steps that verify trees of so many nodes, ``depth`` on the longest path."""
    return trace("a", verified=[nodes] * steps, accepted=[accepted] * steps, depth=[depth] * steps)


def test_h9_155_rounds_of_7_with_nothing_accepted():
    arm = trace("a", verified=[7] * 155, accepted=[0] * 155)
    assert accept_length([arm], seed=SEED).value == 1.0
    assert codes(arm) == {"draft_inert"}
    # The text matches plain's, and still the arm is not ranked.
    assert "draft_inert" not in EXPLAINED


@pytest.mark.parametrize(("drafted", "inert"), [(49, False), (50, True)])
def test_h9_nothing_accepted_of_fifty(drafted, inert):
    arm = trace("a", verified=[1] * drafted, accepted=[0] * drafted)
    assert ("draft_inert" in codes(arm)) is inert
    one = trace("a", verified=[1] * drafted, accepted=[1] + [0] * (drafted - 1))
    assert "draft_inert" not in codes(one)


@pytest.mark.parametrize(("rounds", "full"), [(99, False), (100, True)])
def test_h9_everything_accepted_in_a_hundred_rounds(rounds, full):
    arm = trace("a", verified=[3] * rounds, accepted=[3] * rounds)
    assert ("suspicious_full" in codes(arm)) is full
    assert "suspicious_full" not in codes(arm, draft_is_target=True)
    missed = trace("a", verified=[3] * 100, accepted=[3] * 99 + [2])
    assert "suspicious_full" not in codes(missed)
    assert "suspicious_full" not in EXPLAINED


def test_a_tree_is_full_where_its_longest_path_is_accepted_every_time():
    assert codes(tree(100, nodes=25, depth=4, accepted=4)) == {"suspicious_full"}
    assert codes(tree(100, nodes=25, depth=4, accepted=3)) == set()
    assert codes(tree(99, nodes=25, depth=4, accepted=4)) == set()


def test_one_round_of_a_large_tree_shows_nothing_yet():
    assert codes(tree(12, nodes=59, depth=4, accepted=0)) == set()
    assert codes(tree(13, nodes=59, depth=4, accepted=0)) == {"draft_inert"}


def test_a_tree_that_is_not_as_deep_as_asked_for_is_told():
    assert codes(tree(50, nodes=25, depth=4, accepted=2), k=5) == {"k_effective"}
    assert codes(tree(50, nodes=25, depth=4, accepted=2), k=4) == set()

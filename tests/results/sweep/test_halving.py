"""One round of halving, by hand: everybody's speed and every ratio is written down."""

from __future__ import annotations

import pytest

from specbench.core.quantity import Quantity
from specbench.results.sweep.candidates import WITHOUT, named
from specbench.results.sweep.halving import ALIKE, NOBODY, ONE_LEFT, Entrant, Ratio, decide

K1, K2, K4, K8 = (named("a", k) for k in (1, 2, 4, 8))


def ratios(p=0.01, **known):
    """(low, high) of each candidate against the leader; None for no interval."""

    def against(name, leader):
        bounds = known[name.replace("-", "_")]
        if bounds is None:
            return Ratio(Quantity(0.9, "x", n=2), None)
        return Ratio(Quantity(sum(bounds) / 2, "x", *bounds, 0.95, 8), p)

    return against


def entrants(plain=1.0, **speeds):
    members = {"k1": K1, "k2": K2, "k4": K4, "k8": K8}
    found = [Entrant(members[name], speed) for name, speed in speeds.items()]
    return [Entrant(WITHOUT, plain), *found]


def test_the_fastest_leads_and_surely_slower_ones_go():
    found = decide(
        entrants(k1=1.3, k2=1.5, k4=1.45),
        ratios(plain=(0.6, 0.7), a_k1=(0.8, 0.99), a_k4=(0.9, 1.05)),
    )
    assert found.leader == "a-k2"
    assert found.kept == ("a-k2", "a-k4")
    assert found.dropped == {
        "a-k1": "surely slower: 0.90x the leader [0.80, 0.99]",
        "plain": "surely slower: 0.65x the leader [0.60, 0.70]",
    }
    assert not found.decided


def test_halving_leaves_half_of_those_that_raced_and_the_slowest_go():
    # Five race and nobody is surely slower: the larger half, three, go on.
    wide = (0.7, 1.1)
    found = decide(
        entrants(k1=1.1, k2=1.4, k4=1.3, k8=1.2),
        ratios(plain=wide, a_k1=wide, a_k4=wide, a_k8=wide),
    )
    assert found.kept == ("a-k2", "a-k4", "a-k8")
    assert set(found.dropped) == {"plain", "a-k1"}
    assert all(why.startswith("probably slower") for why in found.dropped.values())


def test_whoever_leads_in_a_context_is_not_halved_away():
    wide = (0.7, 1.1)
    found = decide(
        entrants(k1=1.1, k2=1.4, k4=1.3, k8=1.2),
        ratios(plain=wide, a_k1=wide, a_k4=wide, a_k8=wide),
        protected=["a-k1"],
    )
    assert "a-k1" in found.kept
    # The room is for three: the next slowest goes in its place.
    assert set(found.dropped) == {"plain", "a-k8"}


def test_without_intervals_nobody_is_dropped():
    found = decide(entrants(k1=1.1, k2=1.4), ratios(plain=None, a_k1=None))
    assert found.kept == ("a-k2", "a-k1", "plain")
    assert not found.dropped
    assert not found.decided


def test_one_that_is_left_decides_it():
    found = decide(entrants(k1=0.8, k2=0.7), ratios(a_k1=(0.7, 0.9), a_k2=(0.6, 0.8)))
    assert (found.leader, found.kept, found.decided, found.why) == (
        "plain",
        ("plain",),
        True,
        ONE_LEFT,
    )


def test_of_equals_the_smallest_draft_is_taken():
    found = decide(entrants(k2=1.5, k4=1.51), ratios(plain=(0.6, 0.7), a_k2=(0.985, 1.004)))
    assert (found.leader, found.decided, found.why) == ("a-k2", True, ALIKE)
    assert found.kept == ("a-k2", "a-k4")


def test_a_tie_in_speed_goes_to_the_smaller_tree():
    small, large = named("a", 4, 8), named("a", 4, 16)
    found = decide(
        [Entrant(large, 1.5), Entrant(small, 1.5)],
        lambda name, leader: Ratio(Quantity(1.0, "x", 0.9, 1.1, 0.95, 8), 0.8),
    )
    assert found.leader == "a-k4-n8"


def test_who_may_not_be_recommended_does_not_lead():
    fast = Entrant(K8, 2.0, "its output is not the target's: MISMATCH 1/4")
    unknown = Entrant(K4, None)
    found = decide([Entrant(WITHOUT, 1.0), Entrant(K1, 1.2), fast, unknown], ratios(plain=(0.8, 1)))
    assert found.leader == "a-k1"
    assert found.dropped["a-k8"] == fast.refused
    assert found.dropped["a-k4"] == "no speed was measured"


def test_nobody_may_be_left():
    found = decide([Entrant(WITHOUT, 1.0, "no"), Entrant(K1, 1.2, "no")], ratios())
    assert (found.leader, found.kept, found.decided, found.why) == ("", (), True, NOBODY)


@pytest.mark.parametrize("high", [0.999, 1.0])
def test_the_last_two_race_until_one_is_surely_slower(high):
    found = decide(entrants(k1=1.2), ratios(plain=(0.8, high)))
    assert ("plain" in found.dropped) == found.decided == (high < 1)


def test_an_interval_that_the_swap_test_does_not_bear_out_is_not_sure():
    # Of three prompts no swap test comes below 2 / 2^3.
    found = decide(entrants(k1=1.2), ratios(p=0.25, plain=(0.7, 0.9)))
    assert not found.decided
    assert found.kept == ("a-k1", "plain")

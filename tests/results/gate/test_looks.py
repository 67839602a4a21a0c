"""Checks at several looks: outcomes at the border, what may be spent, what more would decide."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from specbench.results.compare.joined import join
from specbench.results.gate.decide import Outcome
from specbench.results.gate.looks import LOOKS, Look, decide_at
from specbench.results.gate.rules import Check, GateRules
from specbench.results.gate.watched import COVERAGE, Watched
from tests.results.compare.made import opened, row, write_run

PASS, FAIL, OPEN = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE
SPEEDUP = Check(metric="speedup", allow=0.05)
CELL = ("suite", 0.0, 1)


def look(number, **changes):
    values = {
        "before": (number - 1) / LOOKS,
        "now": number / LOOKS,
        "minutes": 6.0,
        "by_start": False,
    }
    return Look(number, **(values | changes))


def sides(folder, *, slow=1.0, items=24, noise=0.02, starts=1, seed=0):
    """Arms a and b of one run: 100 ms a request, b ``slow`` times as long; plain takes 200 ms."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(items):
        for name, ms in (("plain", 200.0), ("a", 100.0), ("b", 100.0 * slow)):
            jitter = float(np.exp(rng.normal(0, noise)))
            rows.append(row(f"p{number:02}", name, ms=ms * jitter, start=number % starts))
    write_run(folder, rows)
    run = opened(folder)
    return run.side("a"), run.side("b")


def decided(pair, at, check=SPEEDUP, alpha=0.001):
    joined = join(*pair)
    return decide_at(check, joined, joined.every, "here", at, alpha)


@pytest.mark.parametrize(
    ("slow", "outcome"), [(0.8, PASS), (1.0, PASS), (1.055, OPEN), (1.2, FAIL)]
)
def test_speedup_at_both_sides_of_what_is_allowed(tmp_path, slow, outcome):
    found = decided(sides(tmp_path / "r", slow=slow), look(3))
    assert found.outcome is outcome
    assert found.ratio == pytest.approx(1 / slow, rel=0.02)
    assert found.low < found.ratio < found.high
    # The look from 2/5 to 3/5 may spend 5/25 of 2.5 % at either end.
    assert found.level == pytest.approx(1 - 2 * 0.2 * 0.025)


def test_an_early_look_decides_only_what_is_far_from_the_border(tmp_path):
    pair = sides(tmp_path / "r", slow=1.0625)
    assert decided(pair, look(1), alpha=0.01).outcome is OPEN
    assert decided(pair, look(LOOKS, before=0.0), alpha=0.01).outcome is FAIL


def test_few_prompts_wait_for_more_unless_there_are_none(tmp_path):
    pair = sides(tmp_path / "r", slow=2.0, items=7, noise=1e-4)
    early = decided(pair, look(4))
    assert (early.outcome, early.why) == (OPEN, "7 prompts so far; 8 are the fewest that decide")
    assert decided(pair, look(LOOKS)).outcome is FAIL


def test_equal_counts_pass_and_other_ones_are_not_exact_without_aa_runs(tmp_path):
    pair = sides(tmp_path / "r")
    check = Check(metric="accept_length", allow=0.0)
    assert decided(pair, look(1), check).outcome is PASS
    pair[1].rows.loc[pair[1].rows["item"] == "p03", "committed"] -= 1
    assert "no change at all" in decided(pair, look(1), check).why


def test_what_more_would_decide(tmp_path):
    found = decided(sides(tmp_path / "r", slow=1.02, noise=0.05), look(3))
    assert found.outcome is OPEN
    allowed, more, minutes = map(float, re.findall(r"[\d.]+", found.why))
    assert allowed == pytest.approx(100 * (1 - found.low), abs=0.06)
    # Errors fall with the root of the number of prompts.
    value, border = math.log(found.ratio), math.log(0.95)
    times = ((value - math.log(found.low)) / (value - border)) ** 2
    assert more == math.ceil(24 * (times - 1))
    assert minutes == pytest.approx(6 * (times - 1), abs=0.5)


class TestStartsOfServers:
    """How fast a server is differs from start to start: prompts of one start are no witnesses."""

    def test_one_start_each_shows_nothing_of_times_where_servers_live_apart(self, tmp_path):
        pair = sides(tmp_path / "r", slow=1.5)
        assert decided(pair, look(3, by_start=True)).outcome is OPEN
        counts = Check(metric="accept_length", allow=0.02)
        assert decided(pair, look(3, by_start=True), counts).outcome is PASS

    def test_several_are_the_units(self, tmp_path):
        pair = sides(tmp_path / "r", slow=1.5, starts=6)
        found = decided(pair, look(3, by_start=True))
        assert found.outcome is FAIL
        # 6 starts of 4 prompts tell less than 24 prompts.
        assert found.low < decided(sides(tmp_path / "s", slow=1.5), look(3)).low


class TestWatched:
    def watched(self, *checks, planned=(CELL,)):
        return Watched(GateRules(check=list(checks or [SPEEDUP])), frozenset(planned))

    def test_what_was_decided_stays_so(self, tmp_path):
        watched = self.watched()
        watched.look(*sides(tmp_path / "r"), look(2))
        assert watched.passed
        watched.look(*sides(tmp_path / "s", slow=1.5), look(3))
        assert watched.passed
        assert "look 2 of 5" in watched.checks[0].why
        assert watched.requests == 24

    def test_what_is_open_is_asked_again(self, tmp_path):
        watched = self.watched()
        watched.look(*sides(tmp_path / "r", slow=1.055), look(2))
        assert not (watched.passed)
        assert not (watched.failed)
        watched.look(*sides(tmp_path / "s", slow=1.5), look(3))
        assert watched.failed

    def test_nothing_passes_before_everything_planned_is_seen(self, tmp_path):
        watched = self.watched(planned=(CELL, ("suite", 0.0, 4)))
        watched.look(*sides(tmp_path / "r"), look(2))
        assert not watched.passed
        assert [(one.what, one.where) for one in watched.checks if one.outcome is OPEN] == [
            (COVERAGE, "T=0, load 4, suite")
        ]


def test_looks_at_nothing_different_raise_no_alarm_and_most_pass(tmp_path):
    """Gates of 4 looks: at 2.5 % of a prompt's time, 5 % less is 7 deviations away at the last."""
    found = []
    for seed in range(5):
        watched = Watched(GateRules(check=[SPEEDUP]), frozenset([CELL]))
        pair = sides(tmp_path / f"r{seed}", noise=0.025, seed=seed)
        for number in range(2, LOOKS + 1):
            seen = {f"p{place:02}" for place in range(24 * number // LOOKS)}
            one, other = (side_of(side, seen) for side in pair)
            watched.look(one, other, look(number))
        found.append(watched)
    assert not any(one.failed for one in found)
    assert all(one.passed for one in found)


def side_of(side, items):
    return replace(side, rows=side.rows[side.rows["item"].isin(items)])

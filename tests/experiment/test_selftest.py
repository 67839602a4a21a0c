"""The self-test of the fidelity tests notices tests that cry wolf and tests that see nothing."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from specbench.experiment import selftest
from specbench.experiment.selftest import SelfTest, synthetic
from specbench.fidelity.eprocess import EProcess
from specbench.fidelity.verdict import CellVerdict, Status
from specbench.laws import power as powers
from specbench.laws.defects import BROKEN, RIGHT
from specbench.laws.power import Level, Power

pytestmark = pytest.mark.usefixtures("one_thread")

GOOD = Power("slow leak", 10, 90.0, 80.0, 120.0, 1.0, 100)
LATE = replace(GOOD, sampler="quick leak", median=101.0)
NEVER = replace(GOOD, sampler="leak", median=math.inf, found=0.4)


def outcome(alarms=(0, 0), found=(GOOD,)):
    levels = tuple(Level(f"right {i}", 100, 2000, count) for i, count in enumerate(alarms))
    return SelfTest("setting", levels, tuple(found))


def test_false_alarms_are_counted_over_all_right_samplers():
    assert outcome((1, 2)).alarm_rate == 0.015
    assert outcome((4, 0)).ok
    assert not outcome((4, 1)).ok
    assert outcome((0, 3)).verdict == (
        "ok: false alarms in 1.5% of all runs (at most 2%); every defect found in time"
    )


def test_every_defect_must_be_found_in_time():
    assert outcome().ok
    assert not outcome(found=(GOOD, LATE)).ok
    assert outcome(found=(GOOD, LATE, NEVER)).verdict == (
        "OFF: false alarms in 0.0% of all runs (at most 2%); not found in time: quick leak, leak"
    )


def test_good_tests_pass_and_say_what_they_do():
    said = []
    found = synthetic(1, 5, said.append)
    assert found.ok, found.verdict
    assert [one.sampler for one in found.levels] == [sampler.name for sampler in RIGHT]
    assert [one.sampler for one in found.powers] == [sampler.name for sampler in BROKEN]
    assert {(one.runs, one.tokens) for one in found.levels} == {(5, 2000)}
    assert [one.limit for one in found.powers] == [sampler.limit for sampler in BROKEN]
    assert said == [f"{sampler.name}: 5 runs" for sampler in (*RIGHT, *BROKEN)]
    assert "V = 32, T = 0.7" in found.setting


def test_a_seed_gives_the_same_numbers_again():
    first, second, other = (synthetic(seed, 1, lambda text: None) for seed in (3, 3, 4))
    assert first == second
    assert first.powers != other.powers


def test_a_test_that_never_detects_is_noticed(monkeypatch):
    monkeypatch.setattr(EProcess, "detected_at", lambda self, alpha: None)
    found = synthetic(1, 1, lambda text: None)
    assert not found.ok
    missed = {one.sampler for one in found.powers if one.found == 0}
    # Tokens outside the support are found without the e-process.
    assert missed == {sampler.name for sampler in BROKEN} - {"top-p dropped"}
    assert all(name in found.verdict for name in missed)


def test_a_test_that_always_alarms_is_noticed(monkeypatch):
    def alarmed(cells, alpha):
        return {name: CellVerdict(Status.FAILED) for name in cells}

    monkeypatch.setattr(powers, "judge", alarmed)
    found = synthetic(1, 1, lambda text: None)
    assert found.alarm_rate == 1.0
    assert found.verdict.startswith("OFF: false alarms in 100.0% of all runs")


def test_only_failed_verdicts_are_alarms(monkeypatch):
    def too_few(cells, alpha):
        return {name: CellVerdict(Status.TOO_FEW) for name in cells}

    monkeypatch.setattr(powers, "judge", too_few)
    assert synthetic(1, 1, lambda text: None).alarm_rate == 0.0


@pytest.mark.model
def test_rows_of_the_demo_model(monkeypatch):
    monkeypatch.setattr(selftest, "TEXTS", 6)
    positions, layers = selftest.model_positions(selftest.MODEL)
    assert layers == 26
    count = len(positions.logits)
    # A short text gives fewer than 16 positions.
    assert 80 < count <= 6 * selftest.TOKENS_PER_TEXT
    assert positions.logits.shape == positions.draft.shape == (count, selftest.LIKELY)
    torch.testing.assert_close(positions.draft.sum(1), torch.ones(count))
    agree = (positions.logits.argmax(1) == positions.draft.argmax(1)).float().mean()
    # The exit differs from the target, and agrees often enough to draft.
    assert 0.3 < agree < 0.99


def test_few_runs_may_have_the_alarm_that_chance_gives_them():
    # P(more than 3 alarms in 20 runs at 1 %) < 0.001 < P(more than 2).
    few = SelfTest("few", (Level("right", 20, 100, 3),), ())
    assert few.allowed == 3 / 20
    assert few.ok
    assert not SelfTest("few", (Level("right", 20, 100, 4),), ()).ok

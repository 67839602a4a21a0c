"""Level and power of the fidelity tests: what counts as an alarm, and when a defect is found."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from specbench.core.request import Sampling
from specbench.decoding.sampling import draw
from specbench.laws.defects import BROKEN, RIGHT, Sampler
from specbench.laws.positions import random_positions
from specbench.laws.power import PATIENCE, Power, level, passes, power

pytestmark = pytest.mark.usefixtures("one_thread")

POSITIONS = random_positions(400, 16, Sampling(0.7), 2.0, 0.8, np.random.default_rng(0))
HONEST = Sampler("target", lambda p, g: draw(p.target, torch.from_numpy(g.random(len(p.target)))))
UNLIKELY = Sampler("least likely", lambda p, g: p.target.argmin(1))
"""With top-p 0.9 each of its tokens has target probability 0."""
NUCLEUS = replace(UNLIKELY, top_p=0.9)


def test_every_position_is_emitted_once_per_pass_in_an_order_of_its_own():
    fixed = Sampler("first", lambda p, g: torch.zeros(len(p.logits), dtype=torch.int64))
    emitted = passes(fixed, POSITIONS, np.random.default_rng(1))
    first, second = next(emitted), next(emitted)
    wanted = np.sort(np.log(POSITIONS.target[:, 0].double().numpy()))
    for found in (first, second):
        np.testing.assert_allclose(np.sort(found.log_target), wanted)
    assert not np.array_equal(first.log_target, second.log_target)
    # The columns of a token stay together.
    both = np.column_stack([first.log_target, first.entropy])
    entropy = POSITIONS.moments[0].numpy()
    alone = np.column_stack([np.log(POSITIONS.target[:, 0].double().numpy()), entropy])
    assert {*map(tuple, both.round(9).tolist())} == {*map(tuple, alone.round(9).tolist())}


def test_an_honest_sampler_raises_no_alarm_and_a_broken_one_always():
    honest = level(HONEST, POSITIONS, 30, np.random.default_rng(2))
    assert (honest.sampler, honest.runs, honest.tokens) == ("target", 30, 400)
    # 30 runs at a level of 1 %: more than 3 alarms have a chance below 1e-3.
    assert honest.alarms <= 3
    assert level(UNLIKELY, POSITIONS, 5, np.random.default_rng(2)).alarms == 5


def test_a_token_outside_the_support_is_found_where_it_stands():
    found = power(NUCLEUS, POSITIONS, 6, np.random.default_rng(3), limit=10)
    assert (found.median, found.quarter, found.three_quarters, found.found) == (1, 1, 1, 1.0)
    assert found.spread == "1 [1, 1]"
    assert found.good


def every_third_pass():
    """A sampler that leaves the support at each third pass over the positions."""
    turns = iter(range(10**6))

    def emit(positions, generator):
        outside = next(turns) % 3 == 2
        return positions.target.argmin(1) if outside else positions.target.argmax(1)

    return Sampler("every third pass", emit, top_p=0.9)


@pytest.mark.parametrize(("limit", "needed"), [(10, 3.0), (2, 3.0), (1, 3.0)])
def test_tokens_are_counted_over_passes(limit, needed):
    one = random_positions(1, 16, Sampling(0.7), 2.0, 0.8, np.random.default_rng(4))
    found = power(every_third_pass(), one, 1, np.random.default_rng(3), limit)
    assert found.median == needed
    assert found.good == (needed <= limit)


def test_a_run_gives_up_and_says_never():
    found = power(HONEST, POSITIONS, 4, np.random.default_rng(5), limit=100)
    assert (found.median, found.found) == (math.inf, 0.0)
    assert found.spread == "never [never, never]"
    assert not found.good


def test_what_is_found_after_the_patience_counts_as_not_found():
    # A pass of 400 tokens is looked at at once; with a limit of 1 only the first few count.
    assert PATIENCE < 20
    sharp = Sampler("argmax", lambda p, g: p.target.argmax(1))
    sooner = power(sharp, POSITIONS, 4, np.random.default_rng(6), limit=100)
    assert sooner.found == 1.0
    assert sooner.quarter > PATIENCE
    late = power(sharp, POSITIONS, 4, np.random.default_rng(6), limit=1)
    assert (late.found, late.median) == (0.0, math.inf)


def outcome(median, limit=100):
    return Power("s", 5, median, 1.0, math.inf, 0.6, limit)


def test_good_is_a_median_within_the_limit():
    assert outcome(100.0).good
    assert not outcome(101.0).good
    assert not outcome(math.inf).good
    assert outcome(12.4).spread == "12 [1, never]"


def test_half_of_all_runs_must_have_found_it():
    # Two of four do not: the upper of the two middle runs counts.
    ends = iter([True, False, True, False])

    def emit(positions, generator):
        return positions.target.argmin(1) if next(ends) else positions.target.argmax(1)

    one = random_positions(4, 16, Sampling(0.7), 2.0, 0.8, np.random.default_rng(4))
    found = power(Sampler("half", emit, top_p=0.9), one, 4, np.random.default_rng(7), limit=1)
    assert found.found == 0.5
    assert found.median == math.inf
    assert not found.good


@pytest.mark.parametrize("sampler", BROKEN, ids=lambda sampler: sampler.name)
def test_planted_defects_are_found_on_rows_of_their_own(sampler):
    assert sampler.limit > 0
    assert sampler.model_limit > 0
    # Narrower rows than the limits are made for, so a median twice as large is allowed.
    found = power(sampler, POSITIONS, 5, np.random.default_rng(8), 2 * sampler.limit)
    assert found.good, found.spread


@pytest.mark.parametrize("sampler", RIGHT, ids=lambda sampler: sampler.name)
def test_right_samplers_pass(sampler):
    assert level(sampler, POSITIONS, 5, np.random.default_rng(9)).alarms == 0


def test_a_setting_declares_what_the_sampler_does_not_apply():
    dropped = next(sampler for sampler in BROKEN if sampler.name == "top-p dropped")
    declared = dropped.setting(POSITIONS)
    assert (declared.sampling.top_p, declared.sampled) == (0.9, True)
    assert declared.sampling.temperature == 0.7
    assert torch.equal(declared.draft, POSITIONS.draft)
    greedy = next(sampler for sampler in RIGHT if not sampler.sampled)
    assert greedy.setting(POSITIONS).law.sum(1).eq(1.0).all()

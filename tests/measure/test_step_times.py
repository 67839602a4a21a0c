"""The pass that times steps: interleaved, bounded, on the real batch; it leaves nothing behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.arm import PLAIN, ArmSpec
from specbench.core.request import Sampling
from specbench.core.step_costs import StepCosts
from specbench.core.trace import Lane, Span, TickKind
from specbench.core.warm_up import is_warm_up
from specbench.engines.scripted import ScriptedEngine
from specbench.measure.step_times import ROUNDS, WANTED, time_steps
from tests.measure.fakes import conditions, prompt

K = 3
NEVER_WHOLE = 70
"""A draft that fits into no request: such an arm takes part in every round."""
ARMS = {
    PLAIN: ArmSpec(PLAIN),
    "head": ArmSpec("head", "eagle3", K),
    "other": ArmSpec("other", "eagle3", NEVER_WHOLE),
}
SHARES = (("draft", 0.2), ("verify", 0.6), ("accept", 0.1), ("refill", 0.05))
PROMPTS = {"suite": [prompt(name) for name in ("a", "a b", "a b c", "a b c d", "a b c d e")]}
LONG = conditions(max_new_tokens=64)


class Phased(ScriptedEngine):
    """Steps of an arm that drafts have phases; every call is noted.

    After ``fast_calls`` of them a step takes three times as long.
    """

    sent: list
    fast_calls: int

    def run(self, arm, requests, concurrency):
        self.sent.append((arm, list(requests), concurrency))
        return super().run(arm, requests, concurrency)

    def drain_ticks(self):
        ticks = super().drain_ticks()
        drafts = self.sent[-1][0] != PLAIN
        if len(self.sent) > self.fast_calls:
            ticks = [replace(t, end_ns=t.start_ns + 3 * (t.end_ns - t.start_ns)) for t in ticks]
        return [_phased(t) if drafts and t.kind is TickKind.DECODE else t for t in ticks]


def _phased(tick):
    spans, now = [], tick.start_ns
    for phase, share in SHARES:
        end = now + round(share * (tick.end_ns - tick.start_ns))
        spans.append(Span(phase, Lane.HOST, now, end))
        now = end
    return replace(tick, spans=tuple(spans))


def engine(fast_calls=1000):
    made = Phased(ARMS, {"step_ms": {"head": 30, PLAIN: 20}, "accepted": {"head": [1, 3]}})
    made.sent, made.fast_calls = [], fast_calls
    return made


def test_costs_are_those_of_the_script():
    made = engine()
    found = time_steps(made, LONG, {PLAIN: 0, "head": K}, PROMPTS)
    (costs,) = found.arms["head"]
    assert (costs.temperature, costs.concurrency, costs.t1_ms) == (0.0, 1, 20.0)
    assert costs.drafted.step == pytest.approx(1.5)
    # 20 % draft and 5 % refill, 60 % verify, 15 % the rest of 30 ms, over 20 ms
    assert (costs.drafted.d, costs.drafted.v) == (pytest.approx(0.375), pytest.approx(0.9))
    assert costs.drafted.o == pytest.approx(0.225)
    assert costs.drafted.verified == K
    assert costs.idle is None
    assert costs.other_prompts
    assert found.reason == ""


def test_arms_take_turns_until_each_has_enough():
    made = engine()
    (costs,) = time_steps(made, LONG, {PLAIN: 0, "head": K}, PROMPTS).arms["head"]
    assert [arm for arm, _, _ in made.sent[:4]] == [PLAIN, "head", "head", PLAIN]
    assert WANTED <= costs.drafted.steps < 2 * WANTED
    assert costs.t1_steps >= WANTED
    tokens = {arm: requests[0].limits.max_new_tokens for arm, requests, _ in made.sent}
    assert tokens == {PLAIN: 1 + 8, "head": 1 + 16 + K}


@pytest.mark.parametrize("fast_rounds", range(ROUNDS))
def test_a_machine_that_slows_down_changes_neither_costs_nor_those_of_a_neighbour(fast_rounds):
    alone, beside = engine(2 * fast_rounds), engine(3 * fast_rounds)
    both = {PLAIN: 0, "head": K}
    (costs,) = time_steps(alone, LONG, both, PROMPTS).arms["head"]
    (shared,) = time_steps(beside, LONG, both | {"other": NEVER_WHOLE}, PROMPTS).arms["head"]
    # The head has its steps in 4 rounds of 8 of plain, and the other one is there for all 6.
    assert [sum(arm == name for arm, _, _ in beside.sent) for name in both] == [ROUNDS, 4]
    assert shared == costs
    assert costs.t1_steps == 32
    parts = costs.drafted
    assert (parts.step, parts.d, parts.v) == (1.5, pytest.approx(0.375), pytest.approx(0.9))


def test_a_drafter_that_is_never_whole_ends_with_the_rounds():
    made = engine()
    # No draft of 20 tokens fits into what a request may have.
    short = conditions(max_new_tokens=8)
    (costs,) = time_steps(made, short, {PLAIN: 0, "head": 20}, PROMPTS).arms["head"]
    assert costs.drafted is None
    assert sum(arm == "head" for arm, _, _ in made.sent) == ROUNDS


def test_every_temperature_and_concurrency_with_prompts_of_median_length():
    made = engine()
    both = replace(LONG, samplings=(Sampling(0.0), Sampling(0.7)), concurrency=(1, 2))
    found = time_steps(made, both, {PLAIN: 0, "head": K}, PROMPTS, other_prompts=False)
    places = [(costs.temperature, costs.concurrency) for costs in found.arms["head"]]
    assert places == [(0.0, 1), (0.0, 2), (0.7, 1), (0.7, 2)]
    assert not any(costs.other_prompts for costs in found.arms["head"])
    assert found.of("head", 0.7, 2) is found.arms["head"][3]
    assert found.of("head", 0.5, 2) is None
    assert found.of("other", 0.7, 2) is None
    assert {concurrency: len(requests) for _, requests, concurrency in made.sent} == {1: 1, 2: 2}
    # "X turn0": of lengths 2 to 6 the first request has 4 tokens
    assert len(made.sent[0][1][0].token_ids) == 4


def test_nothing_of_it_is_measured():
    made = engine()
    time_steps(made, LONG, {PLAIN: 0, "head": K}, PROMPTS)
    assert all(is_warm_up(one.key) for _, requests, _ in made.sent for one in requests)
    assert made.drain_ticks() == []


def test_runs_without_anything_to_compare_are_not_timed():
    made = engine()
    assert time_steps(made, LONG, {PLAIN: 0, "off": 0}, PROMPTS) == StepCosts()
    alone = time_steps(made, LONG, {"head": K}, PROMPTS)
    assert alone == StepCosts(reason="this run has no plain arm")
    assert made.sent == []
    unsent = time_steps(made, replace(LONG, context=1), {PLAIN: 0, "head": K}, PROMPTS)
    assert unsent == StepCosts({"head": ()})

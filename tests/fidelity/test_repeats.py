"""Cases A4 and B14 on traces: repeats that should agree, and repeats that should not."""

import math

from specbench.core.trace import Finish
from specbench.fidelity.floor import Agreement
from specbench.fidelity.repeats import sampling_inactive, self_agreement
from tests.metrics.traces import trace


def plain(ids=(1, 2, 3), item="a", prompt="h", **fields):
    made = trace(item, arm="plain", ids=ids, **fields)
    made.prompt_hash = prompt
    return made


def test_repeats_are_compared_in_disjoint_pairs():
    found = self_agreement(
        [
            plain(repeat=0),
            plain(repeat=1),
            plain(repeat=2, ids=(9,)),  # no partner
            plain(item="b", repeat=1, ids=(1, 2)),
            plain(item="b", repeat=0),
        ]
    )
    assert found == Agreement(1, 2)


def test_a_pair_crosses_concurrencies_first():
    other = (1, 2, 4)
    traces = [
        plain(repeat=0, concurrency=1),
        plain(repeat=0, concurrency=8, ids=other),
        plain(repeat=1, concurrency=1),
        plain(repeat=1, concurrency=8, ids=other),
    ]
    assert self_agreement(traces) == Agreement(0, 2)


def test_only_the_same_greedy_prompt_is_compared():
    traces = [
        plain(turn=1, prompt="x"),
        plain(turn=1, prompt="y", repeat=1),
        plain(item="c", temperature=1.0),
        plain(item="c", temperature=1.0, repeat=1),
        plain(item="d", finish=Finish.ERROR),
        plain(item="d", repeat=1),
        plain(item="e", ids=()),
        plain(item="e", ids=(), repeat=1),
    ]
    assert self_agreement(traces) == Agreement(0, 0)


def test_ties_agree_within_the_tolerance():
    first, second = plain(overlap=[0.5, 0.5]), plain(repeat=1, ids=(1, 2, 7))
    first.evidence.margin, first.evidence.runner_up = [1.0, 1e-4], [8, 7]
    assert self_agreement([first, second]) == Agreement(0, 1)
    assert self_agreement([first, second], 1e-3) == Agreement(1, 1)


def sampled(repeat, probability=0.5, ids=(0,), tokens=1, **fields):
    made = plain(ids=ids, repeat=repeat, overlap=[0.0] * tokens, temperature=1.0, **fields)
    made.evidence.log_target = [math.log(probability) if probability else None] * tokens
    return made


def test_300_equal_outputs_of_case_b14():
    reason = sampling_inactive(sampled(repeat) for repeat in range(300))
    # 0.5 ** 299 = 1e-90.007
    assert reason.startswith("sampling inactive: 300 outputs of 1 prompts at temperature > 0")
    assert reason.endswith("1e-90")
    assert sampling_inactive([*(sampled(r) for r in range(299)), sampled(299, ids=(1,))]) is None


def test_equal_outputs_that_the_target_explains():
    assert sampling_inactive(sampled(repeat) for repeat in range(20)) is None  # 0.5 ** 19 = 2e-6
    assert sampling_inactive(sampled(repeat) for repeat in range(21)) is not None  # 1e-6, below
    assert sampling_inactive(sampled(repeat, 1.0) for repeat in range(300)) is None
    assert sampling_inactive(sampled(repeat, 0.0) for repeat in range(300)) is None
    # 100 tokens of probability 0.99, the rest spread thin: much entropy, yet 37 % come twice.
    assert sampling_inactive(sampled(repeat, 0.99, tokens=100) for repeat in range(2)) is None


def test_chances_of_several_prompts_multiply():
    pairs = [sampled(repeat, item=str(i)) for i in range(20) for repeat in range(2)]
    assert sampling_inactive(pairs) is not None
    assert sampling_inactive([*pairs, sampled(2, item="0", ids=(1,))]) is None
    assert sampling_inactive(pairs[::2]) is None


def test_the_same_seed_at_another_concurrency_is_no_repeat():
    assert sampling_inactive(sampled(0, concurrency=c) for c in range(1, 301)) is None
    greedy = [plain(repeat=repeat) for repeat in range(300)]
    failed = [sampled(repeat, finish=Finish.OOM) for repeat in range(300)]
    assert sampling_inactive([*greedy, *failed]) is None

"""Each guard fires on its case and stays silent on a sound run."""

from dataclasses import asdict

import pytest

from specbench.core.suite import Prompt
from specbench.core.trace import Finish, Lane, Span, Tick, TickKind
from specbench.measure.guards import Around, cell_guards, concurrency_guard, prompt_guards
from specbench.metrics.table import measure_cell
from specbench.suites.statistics import prompt_statistics
from tests.metrics.traces import MS, SEED, timed, trace


def codes(arm, plain, ticks=(), **options):
    table = measure_cell(arm, plain, ticks, None, seed=SEED)
    found = cell_guards(arm, plain, table, **options)
    assert all(guard.text and guard.next_step for guard in found)
    return {guard.code for guard in found}


def sound(n=10, accepted=(2, 1, 2, 1), **fields):
    steps = len(accepted)
    tokens = sum(accepted) + steps
    arm = [
        trace(f"{i}", verified=[3] * steps, accepted=accepted, order=i % 2, **fields)
        for i in range(n)
    ]
    plain = [
        trace(
            f"{i}",
            arm="plain",
            verified=[0] * tokens,
            accepted=[0] * tokens,
            order=(i + 1) % 2,
            **fields,
        )
        for i in range(n)
    ]
    return arm, plain


def test_a_sound_run_raises_nothing():
    arm, plain = sound()
    assert codes(arm, plain) == set()
    assert codes(plain, plain) == set()


def test_a_drafter_that_learns_from_earlier_answers_says_so():
    arm, plain = sound()
    assert codes(arm, plain, around=Around(stateful=True)) == {"stateful"}


def test_random_weights_are_said():
    arm, plain = sound()
    assert codes(arm, plain, around=Around(random_weights=True)) == {"random_weights"}


def test_h9_inert_draft():
    arm = [trace("a", verified=[7] * 155, accepted=[0] * 155)]
    assert "draft_inert" in codes(arm, [])
    assert "draft_inert" not in codes([trace("a", verified=[7] * 7, accepted=[0] * 7)], [])


def test_h9_suspicious_full():
    arm = [trace("a", verified=[3] * 100, accepted=[3] * 100)]
    assert "suspicious_full" in codes(arm, [])
    assert "suspicious_full" not in codes(arm, [], draft_is_target=True)
    assert "suspicious_full" not in codes([trace("a", verified=[3] * 99, accepted=[3] * 99)], [])


def test_speedup_above_accept_length():
    arm, plain = sound()
    for t in plain:
        t.arrivals.t_ns = [
            t.arrivals.t_ns[0] + 3 * (at - t.arrivals.t_ns[0]) for at in t.arrivals.t_ns
        ]
    assert "speedup_above_accept_length" in codes(arm, plain)


@pytest.mark.parametrize(("seconds", "warned"), [(1.05, False), (1.2, True)])
def test_a_speedup_without_an_interval_may_be_above_by_noise(seconds, warned):
    """Ten tokens after the first in one step: the accept length is 10, plain takes 10 seconds."""
    plain = [timed("a", 10 * seconds, 10, arm="plain")]
    found = codes([timed("a", 1.0, 10)], plain)
    assert ("speedup_above_accept_length" in found) is warned


def test_d13_output_lengths_differ():
    arm, plain = sound()
    arm[2] = timed("2", 0.1, 9)
    assert "output_lengths_differ" in codes(arm, plain)
    warm = [timed("2", 0.1, 9, temperature=0.8)], [timed("2", 0.3, 8, arm="plain", temperature=0.8)]
    assert "output_lengths_differ" not in codes(*warm)


def test_failures_but_not_skips():
    arm, plain = sound()
    arm.append(trace("bad", arrivals=[], finish=Finish.OOM, error="CUDA out of memory"))
    assert "failures" in codes(arm, plain)
    arm[-1].finish = Finish.SKIPPED
    assert "failures" not in codes(arm, plain)


@pytest.mark.parametrize(("arm_order", "plain_order"), [(1, 0), (0, 1), (0, 0)])
def test_arms_that_do_not_alternate(arm_order, plain_order):
    arm, plain = sound()
    for a, p in zip(arm, plain, strict=True):
        a.order, p.order = arm_order, plain_order
    assert "not_interleaved" in codes(arm, plain)


def test_arms_in_different_units_on_different_items_or_across_a_resume():
    arm, plain = sound()
    plain[0].unit = "elsewhere"
    assert "not_interleaved" in codes(arm, plain)
    arm, plain = sound()
    arm[0].resumed = 1
    assert codes(arm, plain) == {"split_by_resume"}
    assert "unpaired" in codes(arm[:3], plain[5:])


def test_d9_first_request_and_outlier():
    def run(slow):
        return [
            timed(str(i), 1, 10, start_ms=5000 * i) if i not in slow else late(i) for i in range(50)
        ]

    def late(i):
        return trace(
            str(i), verified=[9], accepted=[9], start_ms=5000 * i, arrivals=[(1537, 1), (2537, 10)]
        )

    assert codes(run({0}), []) == {"first_request_slow"}
    assert codes(run({20}), []) == {"ttft_outlier"}
    assert codes(run(()), []) == set()
    assert codes(run({0})[:3], []) == set()


def test_b14_sampling_inactive():
    def runs(differ):
        return [
            trace(
                "a",
                arrivals=[(100, 1), (130, 2)],
                verified=[1],
                accepted=[1],
                temperature=1.0,
                repeat=r,
                ids=[1, 2, r if differ else 3],
            )
            for r in range(300)
        ]

    assert "sampling_inactive" in codes(runs(False), [])
    assert "sampling_inactive" not in codes(runs(True), [])
    assert "sampling_inactive" not in codes(runs(False)[:2], [])


def test_degenerate_cell_and_unattributed_time():
    arm, plain = sound()
    for t in plain[:4]:
        t.output_ids = [5] * len(t.output_ids)
    span = Span("verify", Lane.HOST, 0, 9 * MS)
    tick = Tick(0, TickKind.DECODE, 1, 4, 4, False, 0, 10 * MS, (span,))
    assert codes(arm, plain, [tick]) == {"degenerate", "time_unattributed"}


def test_a10_acceptance_by_concurrency():
    alone = sound(accepted=[2, 2, 2, 2])[0]
    crowded = sound(accepted=[0, 0, 1, 0, 0], concurrency=16)[0]
    found = concurrency_guard({1: alone, 16: crowded}, seed=SEED)
    assert [guard.code for guard in found] == ["acceptance_by_concurrency"]
    assert "acceptance depends on concurrency" in str(found[0])
    assert concurrency_guard({1: alone, 4: sound(accepted=[2] * 4)[0]}, seed=SEED) == []
    assert concurrency_guard({1: alone}, seed=SEED) == []
    assert concurrency_guard({1: alone, 4: [trace("x", verified=[1], accepted=[1])]}, seed=1) == []
    assert len(concurrency_guard({1: alone[:1], 16: crowded[:1]}, seed=SEED)) == 1


def test_d15_filler_prompts():
    def guards(*texts):
        prompts = [Prompt(f"p{n}", "all", "test", (text,)) for n, text in enumerate(texts)]
        return list(prompt_guards(asdict(prompt_statistics(prompts))))

    def words(*numbers):
        return " ".join(f"w{number}" for number in range(*numbers))

    found = guards(*[words(30)] * 200)
    assert {guard.code for guard in found} == {"degenerate_prompts"}
    assert "0.0050" in found[0].text
    assert guards(words(30), words(20, 60)) == []
    assert list(prompt_guards({})) == []

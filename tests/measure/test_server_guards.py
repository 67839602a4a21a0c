"""Guards about servers: each fires on its case and stays silent on a sound run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.trace import Counted, Finish, Granularity, Tally, Window
from specbench.measure.guards import Around, cell_guards
from specbench.metrics.table import measure_cell
from tests.measure.test_guards import sound
from tests.metrics.traces import MS, SEED, timed, trace


def found(arm, plain=(), **around):
    table = measure_cell(arm, plain, (), None, seed=SEED)
    guards = cell_guards(arm, plain, table, around=Around(**around))
    assert all(guard.text and guard.next_step for guard in guards)
    return {guard.code: guard.text for guard in guards}


def changed(arm, **fields):
    return [replace(t, **fields) for t in arm]


def chunked(n=10, **fields):
    return changed(
        [timed(str(i), 1, 10, granularity=Granularity.CHUNK) for i in range(n)], **fields
    )


def test_one_start_of_a_server_is_said_and_two_are_enough():
    arm, plain = sound()
    assert found(arm, plain) == {}
    text = found(arm, plain, served=True)["one_server_start"]
    assert text.startswith("within one start: all 10 requests")
    for i in range(5):
        arm[i].start = plain[i].start = 1
    assert found(arm, plain, served=True) == {}


def test_pairs_of_different_starts_were_not_interleaved():
    arm, plain = sound()
    arm[0].start = 1
    assert "not_interleaved" in found(arm, plain)


def test_arms_apart_with_one_leading_are_told_what_servers_can_do():
    arm, plain = sound()
    for a, p in zip(arm, plain, strict=True):
        a.order, p.order = 1, 0
    table = measure_cell(arm, plain, (), None, seed=SEED)
    (guard,) = [
        g for g in cell_guards(arm, plain, table, around=Around(served=True))
        if g.code == "not_interleaved"
    ]  # fmt: skip
    assert "start each server twice" in guard.next_step


def test_d8_success_rate_counts_what_was_sent():
    arm = [timed(str(i), 0.1, 5) for i in range(7)]
    bad = [trace(f"b{i}", arrivals=[], finish=Finish.ERROR, error="HTTP 503") for i in range(3)]
    skipped = [trace("s", arrivals=[], finish=Finish.SKIPPED, error="skipped: empty prompt")]
    assert found([*arm, *bad, *skipped])["success_rate"] == (
        "7 of 10 requests succeeded (70.0%), 99% are needed"
    )
    many = [timed(str(i), 0.1, 5) for i in range(99)]
    assert "success_rate" not in found([*many, bad[0]])
    assert "failures" in found([*many, bad[0]])


def test_retries_are_told():
    arm = chunked()
    arm[3].attempts, arm[4].attempts = 2, 3
    assert found(arm)["retried"] == "2 of 10 requests were sent again, at most 3 times in all"


def test_h5_k_effective():
    arm = [trace("a", verified=[3, 0, 2] * 25, accepted=[1, 0, 1] * 25)]
    text = found(arm, k=5)["k_effective"]
    assert text == "k = 5 was asked for, at most 3 tokens were drafted in any of 50 steps"
    assert "k_effective" not in found(arm, k=3)
    assert "k_effective" not in found(arm)
    few = [trace("a", verified=[3, 0, 2] * 24, accepted=[1, 0, 1] * 24)]
    assert "k_effective" not in found(few, k=5)


def tallied(verified, accepted, steps):
    return Tally("test", drafted_steps=steps, verified=verified, accepted=accepted)


@pytest.mark.parametrize("of_requests", [True, False])
def test_h9_from_totals(of_requests):
    def codes(verified, accepted, steps):
        tally = tallied(verified, accepted, steps)
        if of_requests:
            return found(chunked(tally=tally))
        return found(chunked(), windows=[Window(1, tally)] * 10)

    assert codes(7, 0, 1)["draft_inert"] == "0 of 70 drafted tokens were accepted"
    assert codes(30, 30, 10)["suspicious_full"] == (
        "all 300 judged tokens of 100 drafted steps were accepted"
    )
    for silent in ((4, 0, 1), (30, 29, 10), (27, 27, 9), (0, 0, 0), (None, None, None)):
        assert codes(*silent) == {}


def test_estimated_counts():
    arm = chunked()
    arm[0].counted = Counted.ESTIMATED
    assert found(arm)["counted_estimated"].startswith("tokens of 1 of 10 outputs are estimated")
    assert found(chunked(counted=Counted.USAGE)) == {}


def test_c7_counters_that_saw_others():
    refused = Window(4, None, "6 requests were counted, 4 were sent")
    text = found(chunked(), windows=[refused, Window(4, tallied(9, 5, 3))])["other_traffic"]
    assert text == (
        "counters of 1 of 2 stretches cannot be used, first: 6 requests were counted, 4 were sent"
    )


def test_cached_tokens():
    arm, plain = sound()
    arm, plain = changed(arm, cached_tokens=0), changed(plain, cached_tokens=0)
    assert found(arm, plain) == {}
    arm[2].cached_tokens = 48
    codes = found(arm, plain)
    assert codes["unequal_cached_tokens"] == (
        "cached prompt tokens differ on 1 of 10 pairs, first 2: 48 against plain's 0"
    )
    assert codes["prefix_cache_used"].endswith("but 1 requests had cached tokens, at most 48")
    plain[2].cached_tokens = 48
    assert found(arm, plain, prefix_cache="warm") == {}
    plain[2].cached_tokens = None
    assert found(arm, plain, prefix_cache="warm") == {}


def test_h5_settings_that_a_server_changed():
    arm = chunked()
    arm[1].effective = {"temperature": 1.0, "top_k": 40}
    arm[5].effective = {"temperature": 1.0}
    text = found(arm, requested={"top_k": 0})["settings_changed"]
    assert text == (
        "temperature: 0.0 requested, 1.0 in effect (2 requests); "
        "top_k: 0 requested, 40 in effect (1 requests)"
    )
    assert "top_k: 40 in effect" in found(arm)["settings_changed"]


def test_e6_another_prompt():
    arm = chunked(prompt_tokens=36)
    arm[4].effective = {"prompt_tokens": 37}
    assert found(arm) == {
        "prompt_changed": "the server saw another prompt on 1 requests, first 4: 37 tokens for "
        "the 36 that were sent"
    }
    arm[4].effective = {"prompt_ids": "differ from position 0"}
    assert "ids differ from position 0" in found(arm)["prompt_changed"]


def test_open_loop_requests_that_were_sent_late():
    arm = chunked()
    for index, t in enumerate(arm):
        t.sent_ns = t.start_ns + (3 * MS if index < 6 else 0)
    assert found(arm)["late_requests"] == (
        "60% of the requests were sent more than 1 ms after they were due, median 3.0 ms, "
        "largest 3.0 ms"
    )
    for t in arm[:2]:
        t.sent_ns = t.start_ns
    assert found(arm) == {}


def test_probes_speak_only_where_sampling_matters():
    probes = {"temperature": "ignored", "seed": "ignored", "certainty": "by chance 0.02"}
    warm = [timed(str(i), 1, 10, temperature=0.7) for i in range(4)]
    codes = found(warm, probes=probes)
    assert set(codes) == {"temperature_ignored", "seed_ignored"}
    assert "(by chance 0.02)" in codes["temperature_ignored"]
    assert found(chunked(), probes=probes) == {}
    assert found(warm, probes={"temperature": "honoured", "seed": "not tested"}) == {}


def test_open_loops_do_not_bound_the_speed_by_the_accept_length():
    arm, plain = sound()
    for t in plain:
        first = t.arrivals.t_ns[0]
        t.arrivals.t_ns = [first + 3 * (at - first) for at in t.arrivals.t_ns]
    assert "speedup_above_accept_length" in found(arm, plain)
    assert "speedup_above_accept_length" not in found(
        [replace(t, sent_ns=t.start_ns) for t in arm], plain
    )

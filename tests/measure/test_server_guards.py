"""Guards about servers: each fires on its case and stays silent on a sound run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.trace import Counted, Finish, Granularity, Tally, Window
from specbench.measure.guards import Around, cell_guards, concurrency_guard
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


def test_one_start_of_an_attached_server_is_for_its_owner_to_change():
    arm, plain = sound()
    table = measure_cell(arm, plain, (), None, seed=SEED)

    def advice(attached):
        around = Around(served=True, attached=attached)
        guards = cell_guards(arm, plain, table, around=around)
        return next(g.next_step for g in guards if g.code == "one_server_start")

    assert advice(True) == (
        "restart the server and run again; one run cannot see how starts differ"
    )
    assert "set starts = 2 or more" in advice(False)


def test_a_plain_server_that_speculates_is_no_plain_server():
    arm = chunked()
    drafts = tallied(9, 4, 3)
    for told in (drafts, Tally("server", steps=4, committed=9)):
        plain = [replace(t, arm="plain", tally=told) for t in chunked()]
        text = "the plain server speculates: drafts in 10 of 10 requests"
        assert found(arm, plain)["plain_speculates"] == text
        assert "plain_speculates" in found(plain, plain)
    plain = [replace(t, arm="plain") for t in chunked()]
    windows = [Window(4, drafts), Window(4, None, "counters cannot be read")]
    assert found(arm, plain, plain_windows=windows)["plain_speculates"] == (
        "the plain server speculates: drafts in 1 of 2 stretches of counters"
    )
    # The arm's own drafts, and a plain server that counts none, are as they should be.
    silent = Tally("server", steps=9, drafted_steps=0, verified=0, accepted=0, committed=9)
    plain = [replace(t, tally=silent) for t in plain]
    codes = found(arm, plain, windows=windows, plain_windows=[Window(4, silent)])
    assert "plain_speculates" not in codes
    # Steps made from an average of tokens per step are off by one at times.
    rounded = replace(silent, steps=8)
    plain = [replace(t, tally=rounded) for t in plain]
    assert "plain_speculates" not in found(arm, plain)
    of_four = replace(silent, steps=36 - 4, committed=36)
    assert "plain_speculates" not in found(arm, plain, plain_windows=[Window(4, of_four)])


def test_steps_of_a_plain_server_show_its_drafts():
    arm, plain = sound()
    steps = plain[3].steps
    steps.proposed[0] = steps.verified[0] = steps.judged[0] = 3
    assert found(arm, plain)["plain_speculates"].endswith("drafts in 1 of 10 requests")


def test_answers_of_a_server_in_one_piece():
    arm = chunked(granularity=Granularity.REQUEST)
    assert found(arm) == {}
    assert found(arm, served=True)["not_streamed"] == (
        "streaming was asked for, but all 10 answers came in one piece"
    )
    arm[0].granularity = Granularity.CHUNK
    assert "not_streamed" not in found(arm, served=True)
    assert "not_streamed" not in found([replace(arm[1], finish=Finish.ERROR)], served=True)


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


OTHERS = "other traffic: 6 requests counted, 4 sent"
RESTARTED = "restarted: the counters of http://h began anew within the measurement"


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (OTHERS, "other_traffic"),
        ("other traffic: 60 tokens counted, 40 received", "other_traffic"),
        ("requests went uncounted: 3 requests counted, 4 sent", "other_traffic"),
        (RESTARTED, "counters_restarted"),
    ],
)
def test_c7_counters_that_saw_others_or_began_anew(reason, code):
    windows = [Window(4, None, reason), Window(4, tallied(9, 5, 3))]
    assert found(chunked(), windows=windows) == {
        code: f"counters of 1 of 2 stretches cannot be used, first: {reason}"
    }


def test_counters_that_show_nothing_and_those_of_plain_raise_nothing():
    silent = [
        Window(4, None, "counters not exposed: the server counts no speculation"),
        Window(4, None, "counters cannot be read: http://h/metrics: HTTP 404"),
        Window(4, None, "the server does not count requests: traffic is unchecked"),
    ]
    assert found(chunked(), windows=silent) == {}
    plain = [replace(t, arm="plain") for t in chunked()]
    assert found(plain, plain, windows=[Window(4, None, OTHERS)]) == {}
    both = found(chunked(), windows=[Window(4, None, RESTARTED), Window(4, None, OTHERS)])
    assert set(both) == {"other_traffic", "counters_restarted"}


def test_one_stream_of_open_arrivals_is_one_unit_of_order():
    arm, plain = sound()
    for a, p in zip(arm, plain, strict=True):
        a.unit = p.unit = "block0"
        a.order, p.order, a.sent_ns, p.sent_ns = 1, 0, a.start_ns, p.start_ns
    assert "not_interleaved" not in found(arm, plain)


def test_a10_from_totals_of_requests():
    def told(steps, concurrency):
        tally = Tally("server", steps=steps, drafted_steps=steps, committed=10)
        return chunked(tally=tally, concurrency=concurrency)

    # 10 tokens in 4 steps alone, in 5 together: 2.5 against 2.0.
    (guard,) = concurrency_guard({1: told(4, 1), 8: told(5, 8)}, seed=SEED)
    assert "accept length at 8 is 0.800 of that at 1" in guard.text
    assert concurrency_guard({1: told(4, 1), 8: told(4, 8)}, seed=SEED) == []
    assert concurrency_guard({1: told(4, 1), 8: told(11, 8)}, seed=SEED) == []
    stepped = [timed(str(i), 1, 10, concurrency=8) for i in range(10)]
    assert concurrency_guard({1: told(4, 1), 8: stepped}, seed=SEED) == []
    assert concurrency_guard({1: chunked(), 8: chunked(concurrency=8)}, seed=SEED) == []


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


def test_e6_another_count_of_one_prompt_where_servers_render():
    arm, plain = sound(6)
    arm[2].prompt_tokens = 17
    assert found(arm, plain) == {
        "prompt_changed": "the server counts other prompts than plain's on 1 of 6 pairs, first 2: "
        "17 tokens against 10"
    }
    # A prompt that nobody counted, and prompts that do differ, say nothing.
    arm[2].prompt_tokens = 0
    assert found(arm, plain) == {}
    arm[2].prompt_tokens, arm[2].prompt_hash = 17, "another"
    assert found(arm, plain) == {}


def test_open_loop_requests_that_were_sent_late():
    arm = chunked()
    for index, t in enumerate(arm):
        t.sent_ns = t.start_ns + (6 * MS if index < 6 else 0)
    assert found(arm)["late_requests"] == (
        "60% of the requests were sent more than 5 ms after they were due, median 6.0 ms, "
        "largest 6.0 ms"
    )
    for t in arm[:2]:
        t.sent_ns = t.start_ns
    assert found(arm) == {}


def late(ms, first_token_ms):
    """Requests that are sent ``ms`` late and answered ``first_token_ms`` after that."""
    arm = []
    for i in range(10):
        arrivals = [(ms + first_token_ms, 1), (ms + first_token_ms + 900, 9)]
        arm.append(trace(str(i), arrivals=arrivals, granularity=Granularity.CHUNK))
        arm[-1].sent_ns = arm[-1].start_ns + int(ms * MS)
    table = measure_cell(arm, (), (), None, seed=SEED)
    return [g for g in cell_guards(arm, (), table) if g.code == "late_requests"]


def test_lateness_is_judged_beside_the_ttft_and_told_from_a_full_queue():
    # 5 % of 400 ms are 20 ms, whatever the wait itself adds to the TTFT.
    assert late(19, 400) == []
    (timer,) = late(21, 400)
    assert "sent more than 20 ms after they were due" in timer.text
    assert timer.next_step.startswith("client timer")
    assert late(5, 40) == []
    (queue,) = late(300, 40)
    assert "raise the concurrency or lower the rate" in queue.next_step


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

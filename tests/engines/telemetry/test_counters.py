"""Counters as deltas of two snapshots; every expected number is a hand sum (cases C6, C7)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from specbench.core.trace import Window
from specbench.engines.telemetry.counters import POLLS, counters_for
from specbench.errors import SpecbenchError

URL = "http://127.0.0.1:8000/metrics"


def page(
    drafts: int = 0,
    drafted: int = 0,
    accepted: int = 0,
    requests: int = 0,
    tokens: int = 0,
    positions: Mapping[int, int] | None = None,
    engine: str = "0",
    extra: str = "",
) -> str:
    label = f'engine="{engine}",model_name="m"'
    lines = [
        "# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.",
        "# TYPE vllm:spec_decode_num_drafts_total counter",
        f"vllm:spec_decode_num_drafts_total{{{label}}} {drafts}.0",
        f"vllm:spec_decode_num_draft_tokens_total{{{label}}} {drafted}.0",
        f"vllm:spec_decode_num_accepted_tokens_total{{{label}}} {accepted}.0",
        f"vllm:generation_tokens_total{{{label}}} {tokens}.0",
        f'vllm:request_success_total{{{label},finished_reason="stop"}} {requests}.0',
    ]
    for position, count in (positions or {}).items():
        name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
        lines.append(f'{name}{{{label},position="{position}"}} {count}.0')
    return "\n".join([*lines, extra, ""])


def measured(
    *pages: str,
    sent: int,
    engine: str = "vllm",
    slept: list[float] | None = None,
    tokens: int | None = None,
):
    """The window between the first page and those after it, the last of which stays."""
    answers: Iterator[str] = iter(pages)
    last = [""]

    def fetch(url: str) -> str:
        last[0] = next(answers, last[0])
        return last[0]

    waits = [] if slept is None else slept
    counters = counters_for(engine, [URL], fetch, waits.append)
    assert counters is not None
    counters.before()
    return counters.after(sent, tokens)


def test_c7_only_the_growth_counts():
    window = measured(
        page(100, 300, 250, requests=7), page(160, 480, 370, requests=10, tokens=183), sent=3
    )
    tally = window.tally
    assert tally is not None
    assert 1 + tally.accepted / tally.drafted_steps == 3.0
    assert (tally.verified, tally.committed, tally.steps) == (180, 180, 60)
    assert URL in tally.source


def test_c7_times_of_creation_are_no_counts():
    extra = 'vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.77e9'
    window = measured(
        page(100, 300, 250, extra=extra), page(160, 480, 370, extra=extra, tokens=180), sent=0
    )
    assert window.tally is not None
    assert window.tally.drafted_steps == 60


@pytest.mark.parametrize("turned", [False, True])
def test_c7_engines_are_added_up_in_any_order(turned):
    first = page(10, 10, 8, requests=1, positions={0: 8})
    second = page(20, 20, 18, requests=1, positions={0: 18}, engine="1")
    pages = [second, first] if turned else [first, second]
    after = "\n".join(pages)
    zero = page() + page(engine="1")
    tally = measured(zero, after, sent=2).tally
    assert tally is not None
    assert tally.accepted_at == [26]
    assert tally.accepted_at[0] / tally.drafted_steps == pytest.approx(0.8667, abs=1e-4)


def test_replicas_are_added_up():
    state = {"a": page(0), "b": page(5, 5, 5, requests=4)}
    counters = counters_for("vllm", ["a", "b"], lambda url: state[url], lambda _: None)
    assert counters is not None
    counters.before()
    state.update(a=page(3, 9, 4, requests=1), b=page(9, 17, 6, requests=6))
    tally = counters.after(3).tally
    assert tally is not None
    assert (tally.drafted_steps, tally.verified, tally.accepted) == (7, 21, 5)


def test_c7_a_counter_that_falls_means_a_restart():
    window = measured(page(100, 300, 250), page(60, 180, 120), sent=1)
    assert window.tally is None
    assert "restarted" in window.reason
    grown = page(200, 600, 500, requests=1, extra="process_start_time_seconds 200.5")
    began = page(100, 300, 250, extra="process_start_time_seconds 100.5")
    assert "restarted" in measured(began, grown, sent=1).reason


def test_other_traffic_is_refused():
    window = measured(page(), page(10, 30, 20, requests=4), sent=3)
    assert window == Window(3, None, "other traffic: 4 requests counted, 3 sent")


def test_late_counts_are_waited_for_but_not_for_ever():
    slept: list[float] = []
    late = page(5, 15, 10, requests=2, tokens=17)
    window = measured(page(), page(2, 6, 4, requests=1), late, sent=2, slept=slept)
    assert window.tally is not None
    assert window.tally.drafted_steps == 5
    assert len(slept) == 1
    slept.clear()
    window = measured(page(), page(2, 6, 4, requests=1), sent=2, slept=slept)
    assert window.reason == "requests went uncounted: 1 requests counted, 2 sent"
    assert len(slept) == POLLS


def test_c6_nothing_drafted_and_no_counters_are_different():
    plain = measured(page(), page(requests=1, tokens=9), sent=1).tally
    assert plain is not None
    assert (plain.steps, plain.committed, plain.drafted_steps, plain.verified) == (8, 8, 0, 0)
    bare = 'vllm:request_success_total{engine="0"} '
    window = measured(f"{bare}1\n", f"{bare}2\n", sent=1)
    assert window.tally is None
    assert "counters not exposed" in window.reason


def test_pages_that_cannot_be_read_have_a_reason():
    def refuse(url: str) -> str:
        raise SpecbenchError(f"{url}: status 404")

    counters = counters_for("vllm", [URL], refuse, lambda _: None)
    assert counters is not None
    counters.before()
    assert "status 404" in counters.after(1).reason
    assert "Prometheus text format" in measured('[{"iter": 1}]', sent=1).reason
    assert counters_for("openai", [URL], refuse) is None
    assert counters_for("vllm", [], refuse) is None


def test_llamacpp_counts_no_requests_and_says_so():
    name = "llamacpp:spec_decode_num_"
    before = f"{name}drafts_total 0\nllamacpp:tokens_predicted_total 5\n"
    after = (
        f"{name}drafts_total 8\n{name}draft_tokens_total 22\n{name}accepted_tokens_total 19\n"
        f'{name}accepted_tokens_per_pos_total{{position="0"}} 8\n'
        f'{name}accepted_tokens_per_pos_total{{position="1"}} 6\n'
        f'{name}accepted_tokens_per_pos_total{{position="2"}} 5\n'
        "llamacpp:tokens_predicted_total 34\n"
    )
    tally = measured(before, after, sent=2, engine="llamacpp").tally
    assert tally is not None
    assert tally.accepted_at == [8, 6, 5]
    assert (tally.committed, tally.steps) == (27, 8)
    assert "other traffic" in tally.note
    checked = measured(before, after, sent=2, engine="llamacpp", tokens=29).tally
    assert checked is not None
    assert "other traffic" not in checked.note
    # Somebody else's 9 tokens, and a page that lags behind by 1.
    other = measured(before, after, sent=2, engine="llamacpp", tokens=20)
    assert other == Window(2, None, "other traffic: 29 tokens counted, 20 received")
    slept: list[float] = []
    late = measured(before, after, sent=2, engine="llamacpp", tokens=30, slept=slept)
    assert late.reason == "requests went uncounted: 29 tokens counted, 30 received"
    assert len(slept) == POLLS
    waited = measured(before, before, after, sent=2, engine="llamacpp", tokens=29)
    assert waited.tally is not None


def test_requests_decide_where_they_are_counted():
    # Tokens of a request that failed half-way are counted and not received.
    window = measured(page(), page(10, 30, 20, requests=3, tokens=40), sent=3, tokens=33)
    assert window.tally is not None
    assert window.tally.committed == 37


def test_sglang_counts_verify_steps_alone():
    names = ("num_requests_total", "generation_tokens_total", "spec_verify_calls_total")
    before = "".join(f'sglang:{name}{{model_name="m"}} 10\n' for name in names)
    after = "".join(
        f'sglang:{name}{{model_name="m"}} {10 + grown}\n'
        for name, grown in zip(names, (2, 62, 20), strict=True)
    )
    tally = measured(before, after, sent=2, engine="sglang").tally
    assert tally is not None
    assert tally.committed / tally.steps == 3.0
    assert (tally.verified, tally.accepted) == (None, None)


def test_trtllm_is_read_at_its_prometheus_page():
    seen: list[str] = []

    def fetch(url: str) -> str:
        seen.append(url)
        return 'trtllm_spec_decode_num_draft_tokens_total{model_name="m"} 4\n'

    for url in ("http://h:1/metrics", "http://h:1/prometheus/metrics"):
        counters = counters_for("trtllm", [url], fetch, lambda _: None)
        assert counters is not None
        counters.before()
        assert "does not count requests" in counters.after(0).reason
    assert set(seen) == {"http://h:1/prometheus/metrics"}

"""Acceptance from totals: every expected number is a hand sum (cases C6, C7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.quantity import Absence, Missing
from specbench.core.trace import Cut, Granularity, Tally, Window
from specbench.metrics.identities import tally_violations, violations
from specbench.metrics.table import measure_cell
from specbench.metrics.totals import not_split
from tests.metrics.traces import SEED, trace


def chunked(item: str, tally: Tally | None, tokens: int = 9):
    made = trace(item, arrivals=[(100, 1), (130, tokens - 1)], granularity=Granularity.CHUNK)
    made.tally = tally
    return made


def told(**fields: object) -> Tally:
    return Tally("server", **fields)  # type: ignore[arg-type]


def value(table, name: str, stat: str = "value"):
    return table[name][stat]


def measure(traces, windows=()):
    return measure_cell(traces, [], [], None, seed=SEED, windows=windows)


def test_c6_three_states_look_different():
    nothing = told(steps=8, drafted_steps=0, verified=0, accepted=0, committed=8)
    refused = told(steps=8, drafted_steps=8, verified=40, accepted=0, committed=8)
    undrafted = measure([chunked("a", nothing)])
    silent = measure([chunked("a", None)])
    rejected = measure([chunked("a", refused)])
    assert value(undrafted, "accept_length").number() == 1.0
    assert value(undrafted, "accept_rate").value.absence is Absence.NOTHING_TO_MEASURE
    for name in ("accept_length", "accept_rate", "accept_length_macro", "k_effective"):
        missing = value(silent, name).value
        assert isinstance(missing, Missing)
        assert missing.absence is Absence.NOT_AVAILABLE
        assert "counters not exposed" in missing.reason
    assert value(silent, "ttft", "mean").known
    assert value(rejected, "accept_rate").number() == 0.0
    assert value(rejected, "accept_length").number() == 1.0


def test_c7_counter_windows():
    windows = [
        Window(3, told(steps=40, drafted_steps=20, verified=60, accepted=40, committed=80)),
        Window(3, told(steps=40, drafted_steps=40, verified=120, accepted=80, committed=120)),
    ]
    table = measure([chunked("a", None)], windows)
    assert value(table, "accept_length_drafted").number() == 1 + 120 / 60
    assert value(table, "accept_length").number() == 200 / 80
    assert value(table, "draft_coverage").number() == 60 / 80
    assert value(table, "accept_rate").number() == 120 / 180
    assert value(table, "waste").number() == pytest.approx(1 - 120 / 180)
    assert value(table, "drafted_per_token").number() == 180 / 200
    assert value(table, "k_effective").number() == 3
    assert "server" in value(table, "accept_length").method
    assert "whole windows" in value(table, "accept_length_macro").value.reason


def test_windows_that_were_refused_are_named():
    good = Window(1, told(steps=4, drafted_steps=4, verified=8, accepted=4, committed=8))
    bad = Window(1, None, "other traffic: 2 requests counted, 1 sent")
    kept = value(measure([chunked("a", None)], [bad, good]), "accept_length")
    assert kept.number() == 2.0
    assert "1 of 2 windows left out: other traffic" in kept.method
    lost = value(measure([chunked("a", None)], [bad]), "accept_length")
    assert "other traffic" in lost.value.reason


def test_requests_are_the_units_where_each_is_told():
    tallies = [
        told(steps=4, drafted_steps=4, verified=12, accepted=4, committed=8, note="weak"),
        told(steps=2, drafted_steps=2, verified=6, accepted=6, committed=8, note="weak"),
        told(steps=8, drafted_steps=8, verified=24, accepted=0, committed=8, note="weak"),
    ]
    table = measure([chunked(str(i), tally) for i, tally in enumerate(tallies)])
    pooled = value(table, "accept_length")
    assert pooled.number() == 24 / 14
    assert pooled.n == 3
    assert pooled.low is not None
    assert "server (weak)" in pooled.method
    assert value(table, "accept_length_macro").number() == pytest.approx((2 + 4 + 1) / 3)


def test_positions_are_per_step_with_a_draft():
    tally = told(
        steps=10, drafted_steps=10, verified=30, accepted=13, committed=23, accepted_at=[7, 4, 2]
    )
    row = measure([chunked("a", tally, 24)])["accept_pos"]
    assert [row[f"rate_{k}"].number() for k in (1, 2, 3)] == [0.7, 0.4, 0.2]
    assert row["conditional_2"].number() == 4 / 7
    assert row["reached_3"].number() == 4
    assert "judged_1" not in row


def test_one_request_without_steps_does_not_change_what_the_others_mean():
    # Two drafts behind an end were never judged: 4 accepted of 4 judged, of 6 verified.
    stepped = trace(
        "a", verified=[3, 3], judged=[3, 1], accepted=[3, 1], committed=[4, 1], cut=Cut.EOS
    )
    other = chunked("b", told(steps=4, drafted_steps=4, verified=9, accepted=4, committed=8))
    table = measure([stepped, other], [Window(2, other.tally)])
    assert value(table, "accept_rate").number() == 4 / 4
    assert value(table, "accept_length").number() == 5 / 2
    assert value(table, "accept_length_uncut").number() == 4.0
    assert value(table, "k_effective").number() == 3
    assert value(table, "tokens_outside_steps").number() == 1
    assert table["accept_pos"]["judged_2"].number() == 1
    for name in ("accept_rate", "accept_length", "k_effective", "tokens_outside_steps"):
        assert "1 of 2 requests left out: no steps" in value(table, name).method, name
    assert "1 of 2 requests left out" in table["accept_pos"]["rate_1"].method
    assert "left out" not in value(measure([stepped]), "accept_rate").method


def test_answers_of_one_token_leave_totals_to_the_others():
    empty = trace("a", arrivals=[(100, 1)])
    other = chunked("b", told(steps=4, drafted_steps=2, verified=9, accepted=4, committed=8))
    assert value(measure([empty, other]), "accept_rate").number() == 4 / 9
    reason = value(measure([empty, chunked("b", None)]), "accept_rate").value.reason
    assert "counters not exposed" in reason


def test_rows_that_do_not_tell_a_figure_are_named():
    full = told(steps=2, drafted_steps=2, verified=6, accepted=4, committed=6)
    part = told(steps=4, verified=9, accepted=4, committed=8)
    table = measure([chunked("a", full, 7), chunked("b", part)])
    assert value(table, "accept_length").number() == (6 + 8) / (2 + 4)
    drafted = value(table, "accept_length_drafted")
    assert drafted.number() == 1 + 4 / 2
    assert "1 of 2 left out" in drafted.method


def test_what_covers_a_part_of_the_cell_says_which():
    full = told(steps=4, drafted_steps=4, verified=12, accepted=4, committed=8)
    three = [chunked("a", full), chunked("b", full), chunked("c", None)]
    assert value(measure(three), "accept_rate").number() == 8 / 24
    assert "2 of 3 requests" in value(measure(three), "accept_rate").method
    # A window of all three covers more than the two that tell their own.
    window = Window(3, told(steps=9, drafted_steps=9, verified=27, accepted=18, committed=27))
    whole = value(measure(three, [window]), "accept_rate")
    assert whole.number() == 18 / 27
    assert "requests" not in whole.method
    silent = [chunked(item, None) for item in "abc"]
    bad = Window(1, None, "other traffic: 2 requests counted, 1 sent")
    good = replace(window, sent=2)
    assert "2 of 3 requests" in value(measure(silent, [good, bad]), "accept_rate").method


def test_totals_that_were_dropped_make_room_for_counters():
    dropped = told(note="totals dropped: accepted 9 > verified 2")
    alone = value(measure([chunked("a", dropped)]), "accept_rate")
    assert alone.value.reason == "totals dropped: accepted 9 > verified 2"
    window = Window(1, told(steps=4, drafted_steps=4, verified=8, accepted=4, committed=8))
    assert value(measure([chunked("a", dropped)], [window]), "accept_rate").number() == 0.5
    sound = told(steps=4, drafted_steps=4, verified=12, accepted=4, committed=8)
    joined = value(measure([chunked("a", dropped), chunked("b", sound)]), "accept_rate")
    assert joined.number() == 4 / 12
    assert "1 of 2 requests; left out: totals dropped" in joined.method


def test_slices_of_counters_have_their_own_reason():
    window = Window(2, told(steps=9, drafted_steps=9, verified=27, accepted=18, committed=27))
    arm = [chunked("a", None, 61), chunked("b", None, 61)]
    by_category = measure(arm[:1], not_split([window], "category"))
    reason = value(by_category, "accept_rate").value.reason
    assert reason == "counters cannot be split by category"
    assert not_split([], "category") == []

    def table(*looping):
        plain = [
            replace(trace(item, arm="plain", verified=[0] * 60, accepted=[0] * 60), output_ids=ids)
            for item, ids in (("a", list(range(61))), ("b", [5] * 61 if looping else [*range(61)]))
        ]
        return measure_cell(arm, plain, [], None, seed=SEED, windows=[window])

    assert value(table(), "accept_rate", "nondegenerate").number() == 18 / 27
    lost = value(table("b"), "accept_rate", "nondegenerate").value.reason
    assert lost == "counters cannot be split by request"


def test_cells_with_steps_alone_ignore_windows():
    window = Window(1, told(steps=1, drafted_steps=1, verified=9, accepted=9, committed=1))
    table = measure([trace("a", verified=[3], accepted=[1])], [window])
    assert value(table, "accept_rate").number() == 1 / 3


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"accepted": 3, "verified": 2}, "accepted 3 > verified 2"),
        ({"drafted_steps": 3, "steps": 2}, "steps with a draft 3 > steps 2"),
        ({"accepted_at": [1, 2]}, "accepted_at rises"),
    ],
)
def test_totals_that_contradict_themselves_are_untold_and_the_record_stays(fields, says):
    broken = told(**fields)
    assert any(says in text for text in tally_violations(broken))
    assert list(tally_violations(told())) == []
    made = chunked("a", broken)
    assert violations(made) == []
    alone = measure([made])
    assert value(alone, "tpot", "mean").number() == 30 / 8
    assert says in value(alone, "accept_rate").value.reason
    sound = told(steps=4, drafted_steps=4, verified=12, accepted=4, committed=8)
    joined = value(measure([made, chunked("b", sound)]), "accept_rate")
    assert joined.number() == 4 / 12
    assert f"1 of 2 requests; left out: {says}" in joined.method
    counters = value(measure([chunked("a", None)], [Window(1, broken)]), "accept_rate")
    assert says in counters.value.reason


def test_a_request_sent_before_it_was_due_is_broken():
    early = replace(chunked("a", None), start_ns=100, sent_ns=90)
    assert any("before it was due" in text for text in violations(early))

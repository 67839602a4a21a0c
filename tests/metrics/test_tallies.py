"""Acceptance from totals: every expected number is a hand sum (cases C6, C7)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.quantity import Absence, Missing
from specbench.core.trace import Granularity, Tally, Window
from specbench.metrics.identities import violations
from specbench.metrics.table import measure_cell
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


def test_steps_and_totals_of_one_cell_are_added_up():
    stepped = trace("a", verified=[3, 3], accepted=[3, 1])
    table = measure(
        [stepped, chunked("b", told(steps=4, verified=9, accepted=4, committed=8))],
    )
    assert value(table, "accept_length").number() == (6 + 8) / (2 + 4)
    assert value(table, "accept_rate").number() == (4 + 4) / (6 + 9)
    drafted = value(table, "accept_length_drafted")
    assert drafted.number() == 1 + 4 / 2
    assert "1 of 2 left out" in drafted.method


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
def test_totals_that_contradict_themselves_are_broken(fields, says):
    assert any(says in text for text in violations(chunked("a", told(**fields))))
    assert violations(chunked("a", told())) == []


def test_a_request_sent_before_it_was_due_is_broken():
    early = replace(chunked("a", None), start_ns=100, sent_ns=90)
    assert any("before it was due" in text for text in violations(early))

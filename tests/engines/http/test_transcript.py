"""From events to traces: which moments count, what a success is, what is recorded."""

from __future__ import annotations

import pytest

from specbench.core.trace import Counted, Finish, Granularity, Steps, Tally
from specbench.engines.http.piece import Mark, Piece
from specbench.engines.http.sender import blank
from specbench.engines.http.transcript import Answer, write_down
from tests.engines.http.attached import request

MS = 1_000_000
DONE = Piece(done=True)


def told(*events, asked=None, starts=None, **answer):
    """The trace of events given as (ms, piece)."""
    asked = asked or request()
    trace = blank(asked, "plain", 1, 0)
    write_down(trace, asked, Answer([(ms * MS, piece) for ms, piece in events], **answer), starts)
    return trace


def arrivals(trace):
    return [(t // MS, n) for t, n in zip(trace.arrivals.t_ns, trace.arrivals.tokens, strict=True)]


def test_roles_empty_deltas_and_usage_are_no_tokens():
    trace = told(
        (20, Piece()),
        (100, Piece(text="Hi")),
        (130, Piece(text=" there")),
        (150, Piece(finish=Finish.STOP)),
        (151, Piece(completion_tokens=2)),
        (151, DONE),
    )
    assert arrivals(trace) == [(100, 1), (130, 1)]
    assert (trace.finish, trace.text, trace.counted) == (Finish.EOS, "Hi there", Counted.USAGE)
    assert trace.first_visible_ns == 100 * MS
    assert trace.granularity is Granularity.CHUNK


def test_no_token_at_all_is_a_failure_and_not_time_zero():
    trace = told((20, Piece()), (30, Piece(finish=Finish.STOP)), (31, DONE))
    assert trace.finish is Finish.ERROR
    assert "no token" in trace.error
    assert arrivals(trace) == []


def test_reasoning_comes_first_and_is_not_visible():
    trace = told(
        (100, Piece(reasoning="a")),
        (200, Piece(reasoning="b")),
        (500, Piece(text="c", finish=Finish.STOP)),
        (501, Piece(completion_tokens=3)),
    )
    assert arrivals(trace) == [(100, 1), (200, 1), (500, 1)]
    assert trace.first_visible_ns == 500 * MS
    assert trace.text == "c"


def test_reasoning_alone_is_a_success_without_a_visible_token():
    trace = told((100, Piece(reasoning="a")), (200, Piece(reasoning="b", finish=Finish.LENGTH)))
    assert trace.ok
    assert trace.first_visible_ns is None
    assert sum(trace.arrivals.tokens) == 2


def test_the_first_token_counts_though_its_text_comes_later():
    trace = told(
        (10, Piece(token_ids=(1,))),
        (20, Piece(token_ids=(2,))),
        (30, Piece(text="日", token_ids=(3,), finish=Finish.LENGTH)),
    )
    assert arrivals(trace) == [(10, 1), (20, 1), (30, 1)]
    assert trace.first_visible_ns == 30 * MS
    assert trace.output_ids == [1, 2, 3]


@pytest.mark.parametrize(
    ("events", "broken", "reason"),
    [
        ([(1, Piece(text="a")), (2, Piece(error="engine died"))], "", "engine died"),
        ([(1, Piece(text="a")), (2, Piece(text="b"))], "", "without a finish reason"),
        ([(1, Piece(text="a"))], "the connection broke", "the connection broke"),
        ([], "the answer is empty", "the answer is empty"),
    ],
    ids=["error after 200", "no end", "broken", "nothing"],
)
def test_what_is_no_success(events, broken, reason):
    trace = told(*events, broken=broken)
    assert trace.finish is Finish.ERROR
    assert reason in trace.error


def test_a_connection_that_breaks_behind_the_finish_breaks_nothing():
    trace = told((1, Piece(text="a", finish=Finish.LENGTH)), broken="the connection broke")
    assert trace.ok


def test_an_end_mark_without_a_reason_is_read_from_the_length():
    full = told((1, Piece(text="a", completion_tokens=8)), (2, DONE))
    short = told((1, Piece(text="a", completion_tokens=3)), (2, DONE))
    assert (full.finish, short.finish) == (Finish.LENGTH, Finish.EOS)


@pytest.mark.parametrize(
    ("strings", "ids", "said", "finish"),
    [
        ((), (5,), Finish.STOP, Finish.EOS),
        (("###",), (5,), Finish.STOP, Finish.STOP),
        (("###",), (9,), Finish.STOP, Finish.EOS),
        (("###",), (5,), Finish.EOS, Finish.EOS),
    ],
    ids=["no strings", "strings", "end id shown", "the server says"],
)
def test_an_end_token_and_a_stop_string_are_told_apart(strings, ids, said, finish):
    asked = request(strings=strings, ends=(9,))
    trace = told((1, Piece(text="a", token_ids=ids)), (2, Piece(finish=said)), asked=asked)
    assert trace.finish is finish


@pytest.mark.parametrize(("ends", "ids", "hidden"), [((9,), [5, 9], 0), ((8, 9), [5], 1)])
def test_a_hidden_end_is_added_where_there_is_only_one_it_can_be(ends, ids, hidden):
    trace = told(
        (1, Piece(text="a", token_ids=(5,), completion_tokens=1)),
        (2, Piece(finish=Finish.EOS, completion_tokens=2)),
        asked=request(ends=ends),
    )
    assert (trace.output_ids, trace.hidden_end) == (ids, hidden)
    assert arrivals(trace) == [(1, 1), (2, 1)]


def test_steps_from_marks():
    # prefill token, then a step that accepted 2 of 3, then one that accepted none
    marks = [Mark(1, 0, 0, 1.0), Mark(3, 3, 2, 2.0), Mark(4, 3, 2, 2.0), Mark(5, 6, 2, 3.0)]
    events = [
        (10 * i, Piece(text="x", completion_tokens=mark.tokens, mark=mark))
        for i, mark in enumerate(marks)
    ]
    last = Piece(finish=Finish.LENGTH, completion_tokens=5, tally=Tally("all"))
    trace = told(*events, (31, last))
    assert trace.granularity is Granularity.STEP
    assert (trace.steps.committed, trace.steps.accepted) == ([3, 1], [2, 0])
    assert trace.tally is None


def test_steps_that_do_not_add_up_become_totals():
    listed = Steps([0, 1], [3, 3], [3, 3], [3, 3], [2, 3], [3, 4], ["", ""], ["", ""])
    trace = told((1, Piece(text="a", completion_tokens=6, finish=Finish.EOS, steps=listed)))
    assert trace.granularity is Granularity.CHUNK
    assert len(trace.steps) == 0
    assert (trace.tally.verified, trace.tally.accepted, trace.tally.steps) == (6, 5, 2)
    assert "8 tokens, the output has 6" in trace.tally.note


def test_a_prompt_that_the_server_counts_differently_is_noticed():
    asked = request(ids=(1, 2, 3))
    end = Piece(text="a", finish=Finish.LENGTH, prompt_tokens=4, cached_tokens=2)
    trace = told((1, end), asked=asked)
    assert (trace.prompt_tokens, trace.cached_tokens) == (3, 2)
    assert trace.effective == {"prompt_tokens": 4}
    shown = Piece(text="a", finish=Finish.LENGTH, prompt_ids=(1, 1, 2, 3))
    assert told((1, shown), asked=asked).effective == {"prompt_ids": "differ from position 1"}
    same = Piece(text="a", finish=Finish.LENGTH, prompt_ids=(1, 2, 3), prompt_tokens=3)
    assert told((1, same), asked=asked).effective == {}


def test_the_servers_count_stands_where_no_ids_are_known():
    assert told((1, Piece(text="a", finish=Finish.LENGTH, prompt_tokens=4))).prompt_tokens == 4


def test_only_settings_that_differ_are_effective():
    asked = request(temperature=0.7, top_p=0.9, seed=2**40 + 5)
    used = {"temperature": 0.699999988, "top_p": 1.0, "seed": 5, "max_new_tokens": 8, "top_k": 40}
    trace = told((1, Piece(text="a", finish=Finish.LENGTH, effective=used)), asked=asked)
    assert trace.effective == {"top_p": 1.0, "top_k": 40}

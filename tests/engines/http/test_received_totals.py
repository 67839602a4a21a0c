"""Totals that a server tells: kept, dropped with a reason, or made of the steps it lists."""

from __future__ import annotations

import pytest

from specbench.core.trace import Finish, Granularity, Steps, Tally
from specbench.engines.http.piece import Mark, Piece
from specbench.engines.http.received_totals import credible, tells
from specbench.engines.http.sender import blank
from specbench.engines.http.transcript import Answer, write_down
from tests.engines.http.attached import request

# 9 tokens: the prefill's and 8 of 4 steps, of which 3 drafted 3 each and 4 drafts were accepted.
GOOD = {"steps": 4, "drafted_steps": 3, "verified": 9, "accepted": 4, "committed": 8}


def test_totals_that_can_be_true_are_kept():
    told = Tally("server", **GOOD, accepted_at=[3, 1])
    assert credible(told, 9) is told
    assert tells(told)
    # An end inside the last step: 8 tokens of steps that would have given 9.
    cut = Tally("server", **{**GOOD, "accepted": 5})
    assert credible(cut, 9) is cut


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"steps": 9}, "steps 9, but 8 tokens behind the prefill's"),
        ({"committed": 9}, "committed 9, but 8 tokens"),
        ({"accepted": 10}, "accepted 10 > verified 9"),
        ({"drafted_steps": 5}, "steps with a draft 5 > steps 4"),
        ({"accepted": 3}, "8 tokens of 4 steps that accepted 3"),
        ({"verified": -9, "accepted": -10}, "verified is negative"),
        ({"accepted_at": [1, 3]}, "rises"),
        ({"accepted_at": [5, 3]}, "5 steps accepted a draft, of 4"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else value,
)
def test_totals_that_cannot_be_true_leave_a_reason_and_no_number(wrong, reason):
    kept = credible(Tally("server", **{**GOOD, **wrong}), 9)
    assert kept.source == "server"
    assert kept.note.startswith("totals dropped: ")
    assert reason in kept.note
    assert kept == Tally("server", note=kept.note)
    assert not tells(kept)


def told(piece, whole):
    asked = request(limit=20)
    trace = blank(asked, "plain", 1, 0)
    write_down(trace, asked, Answer([(5, piece)], whole))
    return trace


LISTED = Steps([0, 1], [3, 3], [3, 3], [3, 3], [2, 1], [3, 2], ["", ""], ["", ""])


def test_a_whole_answer_with_steps_has_their_totals():
    """2 steps of 3 drafts accepted 2 and 1, and gave 3 and 2 tokens behind the prefill's."""
    piece = Piece(text="a", completion_tokens=6, finish=Finish.LENGTH, steps=LISTED)
    trace = told(piece, whole=True)
    assert (trace.granularity, len(trace.steps)) == (Granularity.REQUEST, 0)
    tally = trace.tally
    assert (tally.steps, tally.drafted_steps, tally.committed) == (2, 2, 5)
    assert (tally.verified, tally.accepted, tally.accepted_at) == (6, 3, [2, 1])
    assert told(piece, whole=False).granularity is Granularity.STEP


def test_the_one_mark_of_a_whole_answer_is_no_step():
    """5 tokens after two steps that accepted 3 and 1, of which the end cut 2."""
    totals = Tally("server", steps=2, verified=8, accepted=4, committed=4)
    piece = Piece(
        text="a",
        completion_tokens=5,
        finish=Finish.EOS,
        mark=Mark(5, 8, 4, 20.0),
        tally=totals,
    )
    trace = told(piece, whole=True)
    assert len(trace.steps) == 0
    assert trace.tally == totals


def test_a_contradiction_leaves_tokens_and_times():
    wrong = Tally("server", **{**GOOD, "accepted": 10})
    trace = told(Piece(text="a", completion_tokens=9, finish=Finish.LENGTH, tally=wrong), False)
    assert trace.ok
    assert (trace.arrivals.t_ns, trace.arrivals.tokens) == ([5], [9])
    assert trace.tally.accepted is None
    assert "accepted 10 > verified 9" in trace.tally.note

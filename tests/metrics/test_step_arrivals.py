"""Arrivals finer than steps, ends without ids, and the first visible token: hand-made traces."""

from __future__ import annotations

from dataclasses import replace

from specbench.core.quantity import Absence
from specbench.core.trace import Counted
from specbench.metrics.latency import gaps, per_token_gaps, tpot, ttfo, ttft
from specbench.metrics.timeline import output_tokens, step_arrivals
from tests.metrics.traces import MS, trace


def test_tokens_of_one_step_are_joined_for_itl_and_not_for_itl_chunk():
    # D1 as a server writes it: three tokens of a step within 2 ms.
    spread = [(100, 1), (128, 1), (129, 1), (130, 1), (158, 1), (159, 1), (160, 1)]
    made = trace(verified=[2, 2], accepted=[2, 2], arrivals=spread)
    assert step_arrivals(made) == [(100 * MS, 1), (130 * MS, 3), (160 * MS, 3)]
    assert per_token_gaps(made) == [(10.0, 3), (10.0, 3)]
    assert gaps(made) == [(28.0, 1), (1.0, 1), (1.0, 1), (28.0, 1), (1.0, 1), (1.0, 1)]
    assert tpot(made).number() == 10.0
    assert ttft(made).number() == 100.0


def test_arrivals_that_span_steps_stay_whole():
    # Foxes of three tokens: 1 + 6 + 6 + 1 tokens arrive as 3, 3, 3, 3, 2.
    shown = [(100, 3), (101, 3), (200, 3), (201, 3), (220, 2)]
    made = trace(verified=[5, 5, 0], accepted=[5, 5, 0], arrivals=shown)
    assert step_arrivals(made) == [(100 * MS, 3), (200 * MS, 6), (220 * MS, 5)]


def test_arrivals_equal_to_steps_are_left_alone():
    made = trace(verified=[2, 2], accepted=[1, 2])
    assert step_arrivals(made) == [(100 * MS, 1), (130 * MS, 2), (160 * MS, 3)]


def test_an_end_token_without_an_id_is_a_token():
    made = trace(verified=[2], accepted=[2], ids=[5, 6, 7])
    assert output_tokens(made) == 3
    assert output_tokens(replace(made, hidden_end=1)) == 4
    assert output_tokens(replace(made, counted=Counted.CHUNK_USAGE)) == 4


def test_ttfo_waits_for_the_answer_behind_the_reasoning():
    thought = replace(trace(verified=[2], accepted=[2]), first_visible_ns=130 * MS)
    assert ttfo(thought).number() == 130.0
    assert ttft(thought).number() == 100.0
    open_answer = replace(trace(verified=[2], accepted=[2]), text="hi")
    assert ttfo(open_answer).number() == 100.0
    reasoning_alone = trace(verified=[2], accepted=[2])
    assert ttfo(reasoning_alone).value.absence is Absence.NOTHING_TO_MEASURE

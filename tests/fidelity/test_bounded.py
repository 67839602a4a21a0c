"""Judging by listed rows: levels hold, defects are found, and bounds that are too wide say so."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest

from specbench.core.request import Sampling
from specbench.core.trace import Evidence
from specbench.fidelity.bounded import bounded_evidence, doubts
from specbench.fidelity.columns import columns
from specbench.fidelity.eprocess import EProcess
from specbench.fidelity.kept import TopRow
from specbench.fidelity.support import support
from specbench.fidelity.verdict import Status, judge
from tests.fidelity.evident import coin, decoded
from tests.fidelity.table_model import TableModel

MODEL = TableModel()
WARM = Sampling(temperature=0.7)
NUCLEUS = Sampling(temperature=0.7, top_p=0.9)
HOT = Sampling(temperature=1.0)
ALPHA = 1e-3


def records(asked, served, *, seed, top=20, count=30, length=40):
    """Outputs of the table model under ``served``, judged under ``asked`` by ``top`` tokens."""
    rng = np.random.default_rng([seed, top])
    found = []
    for item in range(count):
        ids = MODEL.decode(item, length, served, rng)
        trace = decoded(length, f"p{item:02}")
        trace.output_ids = ids
        trace.evidence = bounded_evidence(MODEL.rows(item, ids, top, False), ids, asked)
        found.append(trace)
    return found


def verdict(traces):
    return judge({"cell": columns(traces)}, 0.01, doubts={"cell": doubts(traces)})["cell"]


@pytest.mark.parametrize("sampling", [WARM, NUCLEUS, HOT, Sampling(temperature=1.3, top_k=15)])
def test_honest_outputs_pass_and_say_what_would_have_been_found(sampling):
    found = verdict(records(sampling, sampling, seed=1))
    assert found.status is Status.PASSED
    assert 0 < found.detectable < 0.2


@pytest.mark.parametrize(
    ("asked", "served", "limit"),
    [
        # Four times the medians of 40 repeats of this setting: 100, 260, 19 and 7 tokens.
        (WARM, HOT, 400),
        (WARM, Sampling(temperature=0.5), 1100),
        (WARM, Sampling(temperature=0.0), 80),
        (NUCLEUS, WARM, 30),
    ],
    ids=["temperature ignored", "temperature too low", "greedy sold as sampling", "top-p dropped"],
)
def test_settings_that_the_server_misapplies_are_found_in_time(asked, served, limit):
    traces = records(asked, served, seed=2)
    assert verdict(traces).status is Status.FAILED
    tokens, bounds = columns(traces), doubts(traces)
    process = EProcess()
    process.update(tokens, bounds.excess)
    cut = np.flatnonzero(tokens.outside)
    at = [n for n in (process.detected_at(ALPHA), *cut[:1].tolist()) if n is not None]
    assert min(at) < limit


def test_bounds_that_leave_nothing_to_find_are_named():
    """Four of 64 tokens at temperature 1.3: the rest may weigh anything."""
    sampling = Sampling(temperature=1.3)
    found = verdict(records(sampling, sampling, seed=3, top=4))
    assert found.status is not Status.FAILED
    tests = {test.name: test for test in found.tests}
    for name in ("pit", "surprisal"):
        assert "would be a finding" in tests[name].spoiled
        assert tests[name].p > 0.5
    # Small bets on the first choice can still be won, if it comes far too often.
    assert not tests["eprocess"].spoiled
    assert tests["eprocess"].p == 1.0


def test_doubts_are_said_in_words():
    traces = records(WARM, WARM, seed=4, count=2, length=5)
    said = str(doubts(traces))
    assert "log-probabilities of tokens known to" in said
    assert said.endswith("of 10 emitted tokens")
    assert doubts([coin([True, False])]) is None


def test_doubts_are_in_the_order_of_the_columns():
    traces = records(WARM, WARM, seed=5, count=3, length=4)
    every = doubts(traces[::-1])
    wanted = [value for trace in traces for value in trace.evidence.entropy_doubt]
    assert every.entropy.tolist() == wanted


def test_evidence_of_a_greedy_output_by_hand():
    row = TopRow(np.array([7, 3, 5]), np.log([0.6, 0.3, 0.05]))
    found = bounded_evidence([row, row], [7, 3], Sampling(temperature=0.0))
    assert found.margin == pytest.approx([math.log(2)] * 2)
    assert (found.runner_up, found.target_top_hit) == ([3, 3], [1, 0])
    assert found.entropy == found.log_target == [None, None]
    lengths = {len(getattr(found, f.name)) for f in fields(Evidence)}
    assert lengths == {2}


def test_an_unlisted_token_beyond_a_truncation_fails_the_support_test():
    row = TopRow(np.array([7, 3]), np.log([0.6, 0.3]), rounding=0.0)
    trace = decoded(1)
    trace.output_ids = [9]
    trace.evidence = bounded_evidence([row], [9], Sampling(temperature=1.0, top_p=0.5))
    assert trace.evidence.log_target == [None]
    # Mass 0.6 comes before it, and the border is at 0.5 of everything.
    assert trace.evidence.support_margin == pytest.approx([(0.5 - 0.6) / 0.24])
    assert support(columns([trace]), 0.01).p == 0.0

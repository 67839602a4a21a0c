"""Case A4: ties, defects and the noise floor."""

import pytest

from specbench.fidelity.greedy import (
    GreedyVerdict,
    Kind,
    compare,
    compare_traces,
    summarise,
)
from tests.metrics.traces import trace

REFERENCE = list(range(10))
OTHER = [*range(7), 70, 71, 72]


def judge(other, margin=9.0, second=70, reference=REFERENCE):
    return compare(reference, other, [margin] * 10, [second] * 10, 1e-2)


def test_the_three_pairs():
    assert str(judge(REFERENCE)) == "identical"
    assert str(judge(OTHER, 12.5 - 12.4999)) == "tie@7"
    found = judge(OTHER, 12.5 - 9.0)
    assert (str(found), found.margin) == ("mismatch@7", 3.5)


def test_a_small_margin_is_a_tie_only_for_the_runner_up():
    assert judge(OTHER, 1e-4, second=5) == GreedyVerdict(Kind.MISMATCH, 7, 1e-4)
    assert judge(OTHER, 1e-2).kind is Kind.TIE
    alone = compare(REFERENCE, OTHER, [None] * 7 + [None, 9.0, 9.0], [70] * 10, 1e-2)
    assert alone == GreedyVerdict(Kind.MISMATCH, 7, None)


def test_without_any_margin_a_difference_stays_unjudged():
    assert judge(OTHER, None) == GreedyVerdict(Kind.UNJUDGED, 7, None)
    cell = summarise({"same": judge(REFERENCE), "u": judge(OTHER, None)})
    assert str(cell) == "1 identical, 0 tie, 1 unjudged (u, index 7, margin unknown), 0 mismatch"
    assert cell.passed


@pytest.mark.parametrize(
    ("reference", "other", "index"),
    [(REFERENCE, REFERENCE[:8], 8), (REFERENCE[:8], REFERENCE, 8), ([], [1], 0)],
)
def test_lengths_are_never_cut_to_the_shorter(reference, other, index):
    found = compare(reference, other, [0.0] * len(reference), [None] * len(reference), 1.0)
    assert str(found) == (f"mismatch@{index}" if reference else "unjudged@0")
    assert compare([], [], [], [], 1.0).kind is Kind.IDENTICAL


def test_evidence_of_the_reference_is_placed_by_position():
    reference = trace("a", arm="plain", verified=[0] * 9, accepted=[0] * 9, overlap=[0.5] * 9)
    reference.evidence.margin = [1e-4] * 9
    reference.evidence.runner_up = [70] * 9
    other = trace("a", verified=[0] * 9, accepted=[0] * 9, ids=OTHER)
    assert str(compare_traces(reference, other, 1e-2)) == "tie@7"
    first = trace("a", verified=[0] * 9, accepted=[0] * 9, ids=[70, *range(1, 10)])
    assert compare_traces(reference, first, 1e-2) == GreedyVerdict(Kind.MISMATCH, 0, None)


def test_engines_without_token_ids_are_compared_by_text():
    def spoken(text):
        found = trace("a", verified=[0], accepted=[0], ids=[])
        found.text = text
        return found

    same = compare_traces(spoken("abc"), spoken("abc"), 1e-2)
    assert same.kind is Kind.IDENTICAL
    assert compare_traces(spoken("abc"), spoken("abd"), 1e-2) == GreedyVerdict(Kind.UNJUDGED, 2)
    assert compare_traces(spoken("abc"), spoken(""), 1e-2) == GreedyVerdict(Kind.UNJUDGED, 0)


def test_a_cell_names_what_differs():
    same = {f"i{n}": judge(REFERENCE) for n in range(24)}
    cell = summarise(same | {"t": judge(OTHER, 1e-4)})
    assert str(cell) == "24 identical, 1 tie (t, index 7, margin 0.0001), 0 mismatch"
    assert cell.passed
    worse = summarise(same | {"m": judge(OTHER, 9.0)})
    assert str(worse) == "24 identical, 0 tie, 1 mismatch (m, index 7, margin 9)"
    assert not worse.passed

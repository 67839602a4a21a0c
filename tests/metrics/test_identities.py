from dataclasses import replace

import pytest

from specbench.core.trace import Cut, Lane, Span, Tick, TickKind
from specbench.errors import UsageError
from specbench.metrics.identities import cell_violations, require_valid, violations
from tests.metrics.traces import trace


def test_a_sound_trace_has_no_violation():
    assert violations(trace(verified=[5, 5], accepted=[2, 0], overlap=[0.5, 1.0])) == []
    assert violations(trace(arrivals=[(5, 0)])) == []
    cut = trace(verified=[5], judged=[3], accepted=[3], committed=[3], cut=Cut.EOS)
    assert violations(cut, k_max=5) == []


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"verified": [2], "accepted": [3]}, "accepted 3 > judged 2 at step 0"),
        ({"verified": [2], "judged": [3], "accepted": [0]}, "judged 3 > verified 2"),
        ({"verified": [6], "accepted": [1]}, "proposed 6 > K 5"),
        ({"verified": [5], "accepted": [3], "committed": [5]}, "committed 5 with accepted 3"),
        ({"verified": [5], "accepted": [3], "committed": [3]}, "not accepted + 1 = 4"),
        ({"verified": [1], "accepted": [1], "ids": range(9)}, "9 output tokens but 3"),
        (
            {"verified": [1], "accepted": [1], "arrivals": [(1, 1), (2, 3)]},
            "2 committed tokens, not N - 1 = 3",
        ),
        ({"verified": [0], "accepted": [0], "arrivals": [(9, 1), (8, 1)]}, "times run backwards"),
        (
            {"verified": [0], "accepted": [0], "arrivals": [(1, 1), (2, 0), (3, 1)]},
            "an arrival without tokens",
        ),
        ({"verified": [2], "accepted": [0], "overlap": [1.5]}, "overlap outside 0 .. 1"),
        ({"verified": [2], "accepted": [0], "overlap": [0.5] * 4}, "evidence at position 4"),
    ],
)
def test_a_broken_trace_is_named(fields, says):
    found = violations(trace("HumanEval/3", **fields), k_max=5)
    assert any(says in text and text.startswith("code/HumanEval/3 turn 0") for text in found)


def test_uneven_columns_and_early_cuts():
    t = trace(verified=[2, 2], accepted=[1, 1])
    t.steps.cut = [Cut.EOS, Cut.NONE]
    assert any("not the last" in text for text in violations(t))
    t.steps.judged.append(3)
    assert "columns of steps differ" in violations(t)[0]


def test_require_valid_names_the_item():
    with pytest.raises(UsageError, match="code/bad turn 0 repeat 0, arm mtp: accepted 3"):
        require_valid(
            [trace("good", verified=[3], accepted=[1]), trace("bad", verified=[2], accepted=[3])]
        )
    assert cell_violations([trace("good", verified=[3], accepted=[1])]) == []


def test_ticks_and_spans_must_nest():
    good = Tick(3, TickKind.DECODE, 1, 1, 1, False, 10, 20, (Span("draft", Lane.HOST, 10, 20),))
    require_valid([], [good])
    for bad in (
        replace(good, end_ns=5, spans=()),
        replace(good, spans=(Span("draft", Lane.HOST, 9, 20),)),
        replace(good, spans=(Span("draft", Lane.HOST, 15, 12),)),
    ):
        with pytest.raises(UsageError, match="tick 3"):
            require_valid([], [bad])


def test_a_request_is_recorded_once_per_arm():
    twice = [trace("a", verified=[3], accepted=[1])] * 2
    assert cell_violations(twice) == ["code/a turn 0 repeat 0: recorded 2 times"]


def test_k_bounds_the_paths_of_trees_and_not_their_nodes():
    tree = trace(verified=[25, 25], depth=[5, 5], accepted=[5, 0])
    assert violations(tree, k_max=5) == []
    assert "depth 5 > K 4" in violations(tree, k_max=4)[0]
    # Siblings are judged beside the path, never instead of it.
    beside = trace(verified=[9], judged=[2], depth=[3], accepted=[2])
    assert "depth 3 > judged 2 at step 0" in violations(beside, k_max=5)[0]
    deeper = trace(verified=[25], depth=[3], accepted=[4])
    assert any("accepted 4 > depth 3" in text for text in violations(deeper, k_max=5))
    assert any(
        "columns of steps differ" in text
        for text in violations(trace(verified=[25, 25], depth=[5], accepted=[5, 0]))
    )

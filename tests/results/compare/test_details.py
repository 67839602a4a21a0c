"""Comparisons by position and by phase: counts and times of hand-made traces."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.manifest import RecordId
from specbench.core.trace import Lane, Span, Steps, Tick, TickKind
from specbench.results.compare import details
from specbench.results.compare.compare import compare
from specbench.results.read import Recorded
from tests.results.compare.made import arm, opened, row, write_run
from tests.results.records import MANIFEST, key, trace

MS = 1_000_000
ITEMS = ["p", "q", "r"]


def steps(judged, accepted, ticks):
    count = len(judged)
    committed = [a + 1 for a in accepted]
    blank = [""] * count
    return Steps(ticks, judged, judged, judged, accepted, committed, blank, blank)


def tick(index, draft, verify, rest=0.0):
    """A decode step: drafting, verifying, and a rest that no span covers, in ms."""
    ends = [0, round(draft * MS), round((draft + verify) * MS)]
    spans = (
        Span("draft", Lane.DEVICE, ends[0], ends[1]),
        Span("verify", Lane.DEVICE, ends[1], ends[2]),
    )
    return Tick(index, TickKind.DECODE, 1, 4, 4, False, 0, ends[2] + round(rest * MS), spans)


def test_a_request_that_never_came_to_a_position_still_counts(run):
    folder, recorded = run
    old = recorded.traces[RecordId(key("p"), "a", 1)]
    never = steps([3, 3], [0, 0], [0, 1])
    recorded.traces[RecordId(key("p"), "a", 1)] = replace(old, steps=never)
    found = contrasts(folder, "position")
    # Position 2 is reached in two requests alone; all of b's steps count beside them.
    assert (found["position 1"].base.value, found["position 1"].new.value) == (4 / 6, 1.0)
    assert (found["position 2"].base.value, found["position 2"].new.value) == (0.5, 1.0)
    assert found["position 2"].ratio.n == 3


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Arm ``a`` accepts 1 of 3 and 3 of 3; ``b`` 2 of 2 twice; steps are named by arm and item."""
    write_run(
        tmp_path / "r",
        [row(item, name, committed=6, steps=2) for item in ITEMS for name in ("a", "b")],
        arms=[arm("a"), arm("b", k=2)],
    )
    recorded = Recorded(replace(MANIFEST, arms=(arm("a"), arm("b", k=2))))
    recorded.ticks = {("a", "u"): [], ("b", "u"): []}
    for place, item in enumerate(ITEMS):
        for name, base, judged, accepted in (
            ("a", 0, [3, 3], [1, 3]),
            ("b", 100, [2, 2], [2, 2]),
        ):
            numbers = [base + 2 * place, base + 2 * place + 1]
            made = trace(item, name, steps=steps(judged, accepted, numbers))
            recorded.traces[RecordId(key(item), name, 1)] = made
            draft = 3.0 if name == "a" else 2.0
            recorded.ticks[name, "u"] += [tick(n, draft, 10.0, rest=1.0) for n in numbers]
    monkeypatch.setattr(details, "read_run", lambda folder: recorded)
    return tmp_path / "r", recorded


def contrasts(folder, by):
    (found,) = compare(opened(folder, "a"), [opened(folder, "b")], measures=(), by=by)
    (part,) = found.parts
    return {one.contrast.measure: one.contrast for one in part.judged}


def test_accepted_of_those_that_reached_a_position(run):
    found = contrasts(run[0], "position")
    values = {name: (one.base.value, one.new.value) for name, one in list(found.items())[:2]}
    assert values == {"position 1": (1.0, 1.0), "position 2": (0.5, 1.0)}
    # Two steps of a reach position 2, one of them position 3; b drafts two tokens.
    assert not found["position 3"].ratio.known
    assert "not reached by both" in str(found["position 3"].ratio.value)


def test_time_of_a_phase_per_token(run):
    found = contrasts(run[0], "phase")
    # Two steps for six tokens.
    assert found["draft per token"].base.value == pytest.approx(2 * 3.0 / 6)
    assert found["draft per token"].new.value == pytest.approx(2 * 2.0 / 6)
    assert found["verify per token"].ratio.value == 1.0
    assert found["unattributed per token"].base.value == pytest.approx(2 * 1.0 / 6)


def test_a_step_of_several_requests_is_shared_out(run):
    folder, recorded = run
    for item in ITEMS:
        old = recorded.traces[RecordId(key(item), "a", 1)]
        together = steps([3, 3], [1, 3], [0, 1])
        recorded.traces[RecordId(key(item), "a", 1)] = replace(old, steps=together)
    assert contrasts(folder, "phase")["draft per token"].base.value == pytest.approx(2 * 1.0 / 6)

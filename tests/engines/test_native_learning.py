"""What warm-up teaches a drafter is gone before measuring; rounding is measured wide enough."""

from dataclasses import replace

import pytest

from specbench.core.arm import ArmSpec
from specbench.core.request import Sampling
from specbench.core.trace import Finish
from specbench.core.warm_up import warm_up_key
from specbench.drafters.suffix import SuffixDrafter
from specbench.engines.native import open_engine
from specbench.errors import SpecbenchError
from specbench.measure.calibrate import calibrate
from specbench.measure.clock import monotonic
from specbench.models import selfcheck
from tests.engines.conftest import K
from tests.engines.native_runs import observed, requests
from tests.measure.fakes import conditions

pytestmark = pytest.mark.usefixtures("one_thread")

SUFFIX = ArmSpec("suffix", "suffix", K, "greedy", drafter_options={"scope": "answers"})


def with_suffix(folder):
    return open_engine({"model": str(folder)}, [ArmSpec("plain"), SUFFIX])


def outside(asked):
    """The same prompts before the measurement."""
    return [
        replace(one, key=warm_up_key("other", one.key.item, one.key.temperature)) for one in asked
    ]


def one_by_one(engine, asked):
    return [observed(next(iter(engine.run("suffix", [one], 1)))) for one in asked]


def test_calibration_teaches_a_drafter_nothing(tiny_target):
    asked = requests(count=30, prompts=4)
    settings = conditions(samplings=(Sampling(0.0),), concurrency=(1, 2))
    fresh, calibrated = with_suffix(tiny_target), with_suffix(tiny_target)
    found = calibrate(calibrated, settings, ["plain", "suffix"], outside(asked), monotonic)
    assert found.speed.measured["suffix", 2] > 0
    expected = one_by_one(fresh, asked)
    assert one_by_one(calibrated, asked) == expected
    # What was measured stays, and would have shown: the same prompts as other items.
    again = [replace(one, key=replace(one.key, item=f"again-{one.key.item}")) for one in asked]
    assert one_by_one(fresh, again) != expected


def test_a_pass_that_is_broken_off_teaches_nothing_either(tiny_target):
    engine = with_suffix(tiny_target)
    passing = engine.run("suffix", outside(requests(count=30, prompts=3)), 1)
    next(passing)
    passing.close()
    empty = engine._drafters["suffix"].state_bytes
    list(engine.run("suffix", requests(count=30, prompts=2), 1))
    assert empty == 0 < engine._drafters["suffix"].state_bytes


def test_a_new_start_begins_with_nothing_learnt(tiny_target):
    engine = with_suffix(tiny_target)
    list(engine.run("suffix", requests(count=30, prompts=2), 1))
    engine.begin(["plain", "suffix"], 1)
    assert engine._drafters["suffix"].state_bytes == 0


def test_ties_are_judged_at_the_rows_of_the_widest_step(tiny_target):
    """A tree of 2 x 2 x 2 has 14 nodes on paths of 3: it is verified with 15 rows, not with 4."""
    options = {"model": str(tiny_target), "tree": "2x2x2"}
    tree = ArmSpec("tree", "draft_model", 3, "greedy", drafter_options=options)
    chain = ArmSpec("chain", "ngram", 3, "greedy")
    for arms, width in (([chain], 4), ([chain, tree], 15), ([ArmSpec("plain")], 1)):
        engine = open_engine({"model": str(tiny_target)}, arms)
        assert engine.describe()["self_check"]["width"] == width
        assert engine.tie_tolerance == 2 * max(
            selfcheck.verify_error(engine.packed_model, "tiny", width),
            engine.describe()["self_check"]["packed_error"],
        )


def test_memory_has_what_is_kept_between_requests(tiny_target):
    engine = with_suffix(tiny_target)
    list(engine.run("suffix", requests(count=30, prompts=2), 1))
    kept = engine.memory("suffix").draft_state
    assert kept == engine._drafters["suffix"].state_bytes > 0
    assert engine.memory("plain").draft_state == 0


def test_a_stateful_drafter_that_does_not_tell_its_size_is_not_known(tiny_target):
    class Silent:
        info = SuffixDrafter.info

    engine = with_suffix(tiny_target)
    engine._drafters["suffix"] = Silent()
    assert engine.memory("suffix").draft_state is None


def test_warming_up_teaches_nothing_whatever_the_requests_are_called(tiny_target):
    engine = with_suffix(tiny_target)
    engine.warm_up("suffix", requests(count=30, prompts=2), 1)
    assert engine._drafters["suffix"].state_bytes == 0


def test_a_warm_up_that_fails_leaves_nothing_learnt_and_what_was_recorded(tiny_target, monkeypatch):
    engine = with_suffix(tiny_target)
    list(engine.run("suffix", requests(count=5, prompts=1), 1))
    before = engine.drain_ticks()
    engine._recorder.restore(before)
    release = SuffixDrafter.release

    def failing(self, rows):
        release(self, rows)
        for row in rows:
            row.trace.finish = Finish.ERROR

    monkeypatch.setattr(SuffixDrafter, "release", failing)
    with pytest.raises(SpecbenchError, match="failed while warming up") as caught:
        engine.warm_up("suffix", requests(count=30, prompts=3), 1)
    assert caught.value.__traceback__ is not None  # held: nothing waits for it to be collected
    assert engine._drafters["suffix"].state_bytes == 0
    assert engine.drain_ticks() == before

"""The native engine on a tiny model: identities, continuous batching, ticks, memory."""

import pytest

from specbench.core.arm import ArmSpec
from specbench.core.trace import TickKind
from specbench.engines.native import open_engine
from specbench.metrics.identities import tick_violations, violations
from tests.engines.conftest import OPTIONS, K
from tests.engines.native_runs import ARMS, by_item, observed, requests, run

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("arm", ARMS)
def test_each_request_equals_its_own_batch_of_one(engine, arm, temperature):
    asked = requests(temperature)
    alone = by_item([next(iter(engine.run(arm, [one], 1))) for one in asked])
    engine.drain_ticks()
    for concurrency in (1, 3, 8):
        together = run(engine, arm, asked, concurrency)
        assert together.keys() == alone.keys()
        for item, trace in together.items():
            assert violations(trace, k_max=K) == []
            assert observed(trace) == observed(alone[item])
            assert trace.concurrency == concurrency
    assert engine._pool.available == engine._pool.slabs


@pytest.mark.parametrize(
    ("arm", "temperature"),
    # At T > 0 rejection has plain's law, not its tokens.
    [(arm, 0.0) for arm in ARMS[1:]] + [(f"{drafter}-target_match", 0.8) for drafter in OPTIONS],
)
def test_arms_that_must_repeat_plain_do(engine, arm, temperature):
    asked = requests(temperature)
    plain, other = run(engine, "plain", asked, 3), run(engine, arm, asked, 3)
    assert {i: t.output_ids for i, t in plain.items()} == {
        i: t.output_ids for i, t in other.items()
    }


def test_ticks_are_prefill_or_decode_and_cover_every_step(engine):
    asked = requests()
    traces = list(engine.run("ngram-rejection", asked, 3))
    ticks = engine.drain_ticks()
    assert tick_violations(ticks) == []
    decode = {t.index: t.rows for t in ticks if t.kind is TickKind.DECODE}
    rows = dict.fromkeys(decode, 0)
    for trace in traces:
        for index in trace.steps.tick:
            rows[index] += 1
    assert rows == decode
    assert sum(t.rows for t in ticks if t.kind is TickKind.PREFILL) == len(asked)
    assert max(decode.values()) == 3


def test_warm_up_leaves_no_ticks_and_keeps_earlier_ones(engine):
    asked = requests(prompts=2)
    list(engine.run("plain", asked, 1))
    before = engine.drain_ticks()
    engine._recorder.restore(before)
    engine.warm_up("ngram-rejection", asked, 2)
    after = engine.drain_ticks()
    assert after == before
    assert engine.drain_ticks() == []
    outputs = run(engine, "plain", asked, 1)
    assert len(outputs) == 2


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_draft_in_another_type_runs(tiny_target, temperature):
    options = {"model": str(tiny_target), "dtype": "bfloat16"}
    arm = ArmSpec("half", "draft_model", K, "target_match", drafter_options=options)
    engine = open_engine({"model": str(tiny_target)}, [ArmSpec("plain"), arm])
    asked = requests(temperature, prompts=3)
    plain, half = run(engine, "plain", asked, 3), run(engine, "half", asked, 3)
    assert {i: t.output_ids for i, t in half.items()} == {i: t.output_ids for i, t in plain.items()}
    assert sum(sum(t.steps.accepted) for t in half.values()) > 0


def test_memory_and_description_name_both_models(engine):
    facts = engine.describe()
    loaded = {name for name, found in facts["drafts"].items() if "weight_hash" in found[0]}
    assert loaded == {"draft_model-rejection", "draft_model-target_match"}
    # An early exit loads nothing; only how it drafts is on record.
    chain = {"growth": {"kind": "chain", "sampling": "sampled"}}
    assert facts["drafts"]["layer_skip-rejection"] == [chain]
    memory = engine.memory("draft_model-rejection")
    # Two layers, two heads of 8 numbers, keys and values, 4 bytes.
    assert memory.target_kv_per_token == memory.draft_kv_per_token == 2 * 2 * 8 * 2 * 4
    assert memory.draft_weights == memory.target_weights > 0
    assert engine.memory("layer_skip-rejection").draft_kv_per_token == 0
    assert engine.tie_tolerance < 1e-3


def test_what_every_forward_reads_is_told(engine):
    reads = engine.describe()["reads"]
    assert reads["kv_per_token"] == 2 * 2 * 8 * 2 * 4
    # Untied: of the embedding, 32 numbers of 4 bytes a row, single rows are read.
    rows = engine.describe()["target"]["vocabulary"]
    whole = engine.memory("plain").target_weights
    assert reads["weights"] == whole - rows * 32 * 4
    assert engine.describe()["device_name"] is None

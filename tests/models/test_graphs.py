"""Captured forwards compute what eager ones do, from step to step and from pool to pool."""

import gc
import random
import weakref
from itertools import product

import pytest
import torch

from specbench.decoding.protocols import Tap
from specbench.errors import PrerequisiteError
from specbench.models.attention.flashinfer import FlashInfer
from specbench.models.attention.sdpa import SDPA
from specbench.models.graphs.buckets import FULL, LATE, PROMPT
from specbench.models.graphs.captured import Graphs, graphs_on
from specbench.models.heads.packed import PackedHead
from specbench.models.kv_pool import KVPool
from specbench.models.packed import PackedModel
from tests.drafters.toy_head import ToyHead
from tests.models.fake_flashinfer import library
from tests.models.families import VOCABULARY, build
from tests.models.graph_batches import CAPACITY, CPU, PROMPTS, SLABS, batch
from tests.models.recorded import AgainRecorder, TracedRecorder

pytestmark = pytest.mark.usefixtures("one_thread")
TAPS = (Tap(-1, "final"), Tap(1, "entering"), Tap(0, "leaving"))


@pytest.fixture(params=["sdpa", "flashinfer"])
def attention(request, monkeypatch):
    """Back ends that can be captured; one of them on a stand-in for its library."""
    if request.param == "sdpa":
        return SDPA
    monkeypatch.setattr(library, "made", [])
    monkeypatch.setattr(library, "plans", [])
    backend = FlashInfer(library, CPU)
    monkeypatch.setattr(backend, "require", lambda *_: None)
    return backend


def recorder_of(attention):
    """The library's kernels read their plan from buffers, which a stand-in can only do anew."""
    return TracedRecorder() if attention is SDPA else AgainRecorder()


def opened(attention=SDPA, graphs=None, family="llama", owner="target"):
    model = PackedModel(build(family), owner, attention=attention, graphs=graphs)
    pool = KVPool(SLABS, CAPACITY, torch.float32, CPU, scratch=True)
    pool.add_owner(owner, model.geometry())
    model.use(pool)
    return model


def steps(seed, trees):
    """Ragged steps of some of the requests, with KV that grows."""
    chance = random.Random(seed)
    lengths = {slab: len(ids) for slab, _, ids, _ in PROMPTS}
    for _ in range(8):
        lines = []
        for slab in chance.sample(sorted(lengths), chance.randint(1, 3)):
            tree = trees and chance.random() < 0.7
            count = 4 if tree else chance.randint(1, 4)
            ids = [chance.randrange(VOCABULARY) for _ in range(count)]
            lines.append((slab, lengths[slab], ids, tree))
            if not tree:
                lengths[slab] += chance.randint(0, count)
        yield lines


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3"])
@pytest.mark.parametrize("trees", [False, True], ids=["chains", "trees"])
def test_captured_forwards_compute_what_eager_ones_do(attention, family, trees):
    recorder = recorder_of(attention)
    graphs = Graphs(recorder, capturing=True)
    eager, captured = opened(attention, None, family), opened(attention, graphs, family)
    for model in (eager, captured):
        model.forward(batch(PROMPTS), TAPS)
    for lines in steps(3, trees):
        logits = random.Random(len(lines)).choice(["all", "last"])
        wanted, states = eager.forward(batch(lines, logits), TAPS)
        found, tapped = captured.forward(batch(lines, logits), TAPS)
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-5)
        for tap in TAPS:
            torch.testing.assert_close(tapped[tap], states[tap], atol=1e-4, rtol=1e-5)
        # The next steps read what this one wrote.
        same_kv(eager, captured, lines)
    assert recorder.replays == 8
    assert recorder.records <= recorder.replays
    assert graphs.reasons == {PROMPT: 1}


def same_kv(one, other, lines):
    for layer, (slab, start, ids, _) in product(range(3), lines):
        for mine, theirs in zip(
            one.pool.layer("target", layer), other.pool.layer("target", layer), strict=True
        ):
            end = start + len(ids)
            torch.testing.assert_close(mine[slab, :, :end], theirs[slab, :, :end])


def test_after_the_warm_up_a_shape_takes_a_larger_capture_or_runs_eagerly():
    recorder = TracedRecorder()
    graphs = Graphs(recorder, capturing=True)
    eager, captured = opened(), opened(graphs=graphs)
    for model in (eager, captured):
        model.forward(batch(PROMPTS))
    captured.forward(batch([(3, 3, [1, 2, 3], False)]))
    graphs.capturing = False
    for lines, replayed in (
        ([(0, 5, [9, 8], False), (1, 2, [4], False)], True),
        ([(0, 6, [9, 8, 7, 6], False)], False),
        ([(3, 3, [1], False)], True),
    ):
        before = recorder.replays
        found, wanted = captured.forward(batch(lines))[0], eager.forward(batch(lines))[0]
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-5)
        assert (recorder.replays > before) is replayed
    assert recorder.records == 1
    assert graphs.reasons[LATE] == 1
    # 3 of 12 tokens, then 1: the rest of 4 seats of 3 tokens ran for nobody, thrice.
    assert (graphs.forwards.replayed, graphs.forwards.eager) == (3, 2)
    assert graphs.forwards.padding == 9 + 9 + 11


def moved(model, slabs, capacity):
    pool = KVPool(slabs, capacity, torch.float32, CPU, scratch=True)
    pool.add_owner(model.owner, model.geometry())
    model.use(pool)


def test_a_new_pool_has_captures_of_its_own():
    graphs = Graphs(TracedRecorder(), capturing=True)
    model = opened(graphs=graphs)
    model.forward(batch(PROMPTS))
    model.forward(batch([(0, 5, [1], False)]))
    moved(model, SLABS, CAPACITY)
    graphs.capturing = False
    model.forward(batch(PROMPTS))
    model.forward(batch([(0, 5, [1], False)]))
    assert graphs.reasons == {PROMPT: 2, LATE: 1}


def test_what_was_captured_is_captured_again_over_a_larger_pool(attention):
    """Outside any step; in one, nothing is captured."""
    recorder = recorder_of(attention)
    graphs = Graphs(recorder, capturing=True)
    eager, captured = opened(attention), opened(attention, graphs)
    lines = [(0, 5, [1, 2], False), (2, 9, [3], False)]
    trees = [(1, 2, [4, 5, 6, 7], True)]
    for asked in (PROMPTS, lines, trees):
        captured.forward(batch(asked))
    graphs.capturing = False
    # A lent model may have been in other pools meanwhile, with nothing captured there.
    moved(captured, 2, CAPACITY)
    for model in (eager, captured):
        moved(model, 2 * SLABS, 2 * CAPACITY)
    recorded = recorder.records
    graphs.renew()
    assert graphs.shapes == 2
    assert recorder.records == recorded + 2
    for model in (eager, captured):
        model.forward(batch(PROMPTS))
    for asked in (lines, trees, [(0, CAPACITY + 3, [1, 2], False)]):
        before = recorder.replays
        found, wanted = captured.forward(batch(asked))[0], eager.forward(batch(asked))[0]
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-5)
        assert recorder.replays == before + 1
    graphs.renew()
    assert recorder.records == recorded + 2


def test_a_pool_that_is_gone_is_not_kept():
    graphs = Graphs(TracedRecorder(), capturing=True)
    model = opened(graphs=graphs)
    model.forward(batch(PROMPTS))
    model.forward(batch([(0, 5, [1], False)]))
    old = weakref.ref(model.pool)
    model.forget()
    gc.collect()
    assert old() is None
    assert graphs.shapes == 0


def test_padding_stays_inside_the_slab(attention):
    graphs = Graphs(recorder_of(attention), capturing=True)
    eager, captured = opened(attention), opened(attention, graphs)
    for model in (eager, captured):
        model.forward(batch(PROMPTS))
        model.forward(batch([(0, 5, [1, 2, 3, 4], False)]))
    graphs.capturing = False
    for lines, replayed in (
        ([(0, CAPACITY - 4, [1, 2], False)], True),
        ([(0, CAPACITY - 2, [1, 2], False)], False),
    ):
        before = graphs.forwards.replayed
        found, wanted = captured.forward(batch(lines))[0], eager.forward(batch(lines))[0]
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-5)
        assert (graphs.forwards.replayed > before) is replayed
    assert graphs.reasons == {PROMPT: 1, FULL: 1}


def test_a_capture_that_fails_is_tried_once_and_told():
    recorder = TracedRecorder(fails=True)
    graphs = Graphs(recorder, capturing=True)
    eager, model = opened(), opened(graphs=graphs)
    for one in (eager, model):
        one.forward(batch(PROMPTS))
    for _ in range(2):
        lines = [(0, 5, [1, 2], False)]
        found, wanted = model.forward(batch(lines))[0], eager.forward(batch(lines))[0]
        torch.testing.assert_close(found, wanted)
    assert graphs.reasons == {PROMPT: 1, LATE: 2}
    told = {"operation not permitted when stream is capturing": 1}
    assert graphs.facts() == {"forwards": 0, "failed": told}
    assert graphs.forwards.replayed == 0


def test_rows_that_only_the_device_knows(attention):
    """A head that runs ahead asks for one row of each request, told by a tensor."""
    graphs = Graphs(recorder_of(attention), capturing=True)
    heads = []
    for captured in (None, graphs):
        head = PackedHead(ToyHead(), "head", VOCABULARY, attention=attention, graphs=captured)
        pool = KVPool(SLABS, CAPACITY, torch.float32, CPU, scratch=True)
        pool.add_owner("head", head.geometry())
        head.use(pool)
        heads.append(head)
    torch.manual_seed(0)
    features = torch.randn(40, 32)
    for rows in ([0, 4], [2, 3], [1, 5]):
        lines = [(2, 3, [1, 2, 3], False), (0, 8, [4, 5, 6], False)]
        made = batch(lines, "last")
        made.logit_rows.copy_(torch.tensor(rows))
        results = [
            head.forward(made, features[rows[0] : rows[0] + 6], fresh=True) for head in heads
        ]
        for mine, theirs in zip(*results, strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-5)
        advanced = [head.forward(made, results[0][1], fresh=False) for head in heads]
        for mine, theirs in zip(*advanced, strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-5)
    assert graphs.reasons == {}


def test_what_was_replayed_before_stays_what_it_was():
    """Drafts carry logits from step to step; a replay must not write over them."""
    graphs = Graphs(TracedRecorder(), capturing=True)
    model = opened(graphs=graphs)
    model.forward(batch(PROMPTS))
    kept = model.forward(batch([(0, 5, [1], False)]))[0]
    copy = kept.clone()
    model.forward(batch([(0, 6, [2], False)]))
    assert torch.equal(kept, copy)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_another_request_left_behind_is_not_read(value):
    graphs = Graphs(TracedRecorder(), capturing=True)
    eager, captured = opened(), opened(graphs=graphs)
    for model in (eager, captured):
        slab = model.pool.admit(20)
        for layer in range(3):
            for part in model.pool.layer("target", layer):
                part[slab] = value
        model.pool.release(slab)
        assert model.pool.admit(20) == slab
        model.forward(batch([(slab, 0, [5, 6, 7], False)]))
    lines = [(slab, 3, [1, 2], False)]
    found, wanted = captured.forward(batch(lines))[0], eager.forward(batch(lines))[0]
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-5)


def test_a_cpu_has_no_graphs():
    with pytest.raises(PrerequisiteError, match="CUDA graphs, and the target is on cpu") as told:
        graphs_on(CPU)
    assert "target.device = cuda" in told.value.hint

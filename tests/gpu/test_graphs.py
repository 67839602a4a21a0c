"""Real CUDA graphs: captured forwards and verdicts against the same ones run eagerly."""

import random

import pytest
import torch

from specbench.core.request import Sampling
from specbench.decoding.protocols import Tap
from specbench.models.attention.flashinfer import FlashInfer, require_flashinfer
from specbench.models.attention.sdpa import SDPA
from specbench.models.graphs.captured import Graphs, graphs_on
from specbench.models.graphs.record import CudaRecorder
from specbench.models.kv_pool import KVPool
from specbench.models.packed import PackedModel
from specbench.models.packed_batch import Segment, pack
from specbench.verify.captured import CapturedRule
from tests.models.families import VOCABULARY, build
from tests.models.graph_batches import DEPTHS, TREE
from tests.verify.judged import RULES, same
from tests.verify.judged import batch as drafts

pytestmark = pytest.mark.gpu
DEVICE = torch.device("cuda", 0)
TAPS = (Tap(-1, "final"), Tap(0, "leaving"))
SLABS, CAPACITY = 4, 256


@pytest.fixture(params=["sdpa", "flashinfer"])
def attention(request):
    if request.param == "sdpa":
        return SDPA
    pytest.importorskip("flashinfer", reason="flashinfer is not installed")
    return FlashInfer(require_flashinfer(DEVICE), DEVICE)


def opened(attention, graphs):
    """Heads of 64, the smallest that FlashInfer has kernels for."""
    model = build("llama", dtype=torch.bfloat16, head_dim=64, initializer_range=0.1).to(DEVICE)
    packed = PackedModel(model, "target", attention=attention, graphs=graphs)
    pool = KVPool(SLABS, CAPACITY, torch.bfloat16, DEVICE, scratch=True)
    pool.add_owner("target", packed.geometry())
    packed.use(pool)
    return packed


def batch(segments):
    ids = torch.arange(sum(segment.count for segment in segments)) % VOCABULARY
    return pack(segments, ids.to(DEVICE), "all")


def steps(trees):
    """Ragged steps of some of the requests, with KV that grows."""
    chance, lengths = random.Random(0), [5, 70, 18]
    for _ in range(24):
        segments = []
        for slab in chance.sample(range(3), chance.randint(1, 3)):
            tree = trees and chance.random() < 0.7
            count = 4 if tree else chance.randint(1, 5)
            told = (TREE, DEPTHS) if tree else (None, None)
            segments.append(Segment(slab, lengths[slab], count, *told))
            lengths[slab] += 0 if tree else count
        yield segments


@pytest.mark.parametrize("trees", [False, True], ids=["chains", "trees"])
def test_replays_compute_what_eager_forwards_do(attention, trees):
    graphs = graphs_on(DEVICE)
    graphs.capturing = True
    eager, captured = opened(attention, None), opened(attention, graphs)
    prompts = [Segment(0, 0, 5), Segment(1, 0, 70), Segment(2, 0, 18)]
    for model in (eager, captured):
        model.forward(batch(prompts), TAPS)
    for segments in steps(trees):
        wanted, states = eager.forward(batch(segments), TAPS)
        found, tapped = captured.forward(batch(segments), TAPS)
        # Values near 1 with 8 bits, over three layers.
        torch.testing.assert_close(found.float(), wanted.float(), atol=6e-2, rtol=6e-2)
        for tap in TAPS:
            torch.testing.assert_close(
                tapped[tap].float(), states[tap].float(), atol=6e-2, rtol=6e-2
            )
    assert graphs.failed == {}
    assert graphs.forwards.replayed == 24


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one CUDA device")
def test_graphs_are_recorded_where_their_kernels_run():
    other = torch.device("cuda", torch.cuda.device_count() - 1)
    given = torch.ones(4, device=other)
    replay = CudaRecorder(other)(lambda: (given * 2,))
    given.fill_(3.0)
    assert replay()[0].tolist() == [6.0] * 4


def test_verdicts_are_recorded_too():
    for name, rule in RULES.items():
        if not rule.info.device_only:
            continue
        graphs = Graphs(CudaRecorder(DEVICE), capturing=True)
        captured = CapturedRule(rule, graphs)
        for seed in range(8):
            settings = Sampling(0.8 if rule.info.sampled else 0.0)
            given = drafts(settings, True, seed, device=DEVICE)
            same(captured(*given)[0], rule(*given)[0])
        assert graphs.failed == {}, name

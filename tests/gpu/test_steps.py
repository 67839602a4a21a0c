"""Captured forwards, copies that nobody waits for and overlapped steps on a real device."""

import pytest
import torch

from specbench.decoding.loop import DecodeLoop
from specbench.decoding.schedule import IN_ORDER, Overlapped
from specbench.decoding.transfer import to_device, to_host
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.features.drafter import FeatureDrafter
from specbench.drafters.grow.chain import Chain
from specbench.models.device import recorder_for
from specbench.models.graphs.captured import Graphs
from specbench.models.graphs.record import CudaRecorder
from specbench.models.heads.packed import PackedHead
from specbench.models.kv_pool import KVPool
from specbench.models.packed import PackedModel
from specbench.models.packed_batch import Segment, pack
from specbench.models.target import PackedTarget
from specbench.verify.greedy import RULE as GREEDY
from tests.drafters.toy_head import ToyHead
from tests.models.families import VOCABULARY, build
from tests.toys import request, sequence

pytestmark = pytest.mark.gpu


@pytest.fixture
def gpu():
    return torch.device("cuda")


def test_what_is_sent_and_read_arrives(gpu):
    numbers = torch.arange(10_000)
    sent = to_device(numbers, gpu)
    waiting = to_host(sent * 2)
    assert torch.equal(waiting(), numbers * 2)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_captured_forwards_compute_what_eager_ones_do(gpu, family):
    graphs = Graphs(CudaRecorder(gpu), capturing=True)
    models = []
    for captured in (None, graphs):
        model = PackedModel(build(family).to(gpu), "target", graphs=captured)
        pool = KVPool(3, 64, torch.float32, gpu, scratch=True)
        pool.add_owner("target", model.geometry())
        model.use(pool)
        model.forward(pack([Segment(0, 0, 4), Segment(2, 0, 2)], torch.arange(1, 7), "all"))
        models.append(model)
    for step in range(3):
        segments = [Segment(2, 2 + step, 1), Segment(0, 4 + step, 2)]
        batch = pack(segments, torch.tensor([7, 8, 9]) + step, "all")
        eager, replayed = (model.forward(batch)[0] for model in models)
        torch.testing.assert_close(replayed, eager, atol=1e-4, rtol=1e-4)
    assert graphs.forwards.replayed == 3


def decoded(gpu, schedule, graphs=None, steps=None):
    """Outputs of three requests with a head that drafts one token."""
    target = PackedModel(build("llama").to(gpu), "target", graphs=graphs)
    network = ToyHead().to(gpu)
    network.device = gpu
    head = PackedHead(network, "head", VOCABULARY, graphs=graphs)
    pool = KVPool(3, 96, torch.float32, gpu, scratch=True)
    for owner in (target, head):
        pool.add_owner(owner.owner, owner.geometry())
        owner.use(pool)
    overlapped = schedule is not IN_ORDER
    drafter = FeatureDrafter(head, Chain(DraftRows(VOCABULARY, overlapped), False), 96)
    recorder = recorder_for(gpu, overlapped, spans=True)
    loop = DecodeLoop(PackedTarget(target, gpu), drafter, GREEDY, 1, recorder, False, schedule)
    rows = [sequence(request([3, 1, 4][: i + 1], 30, item=str(i)), pool) for i in range(3)]
    loop.prefill(rows)
    for number in range(10):
        if steps is not None and number == 4:
            torch.cuda.set_sync_debug_mode("error")
        loop.step(rows)
    torch.cuda.set_sync_debug_mode("default")
    return [row.trace.output_ids for row in rows], recorder.drain()


def test_overlapped_steps_wait_for_their_outcome_alone(gpu):
    wanted, _ = decoded(gpu, IN_ORDER)
    try:
        found, ticks = decoded(gpu, Overlapped(), steps="watched")
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert found == wanted
    assert {span.lane.value for tick in ticks for span in tick.spans} == {"host", "device"}


def test_overlapped_and_captured_together(gpu):
    wanted, _ = decoded(gpu, IN_ORDER)
    graphs = Graphs(CudaRecorder(gpu), capturing=True)
    found, _ = decoded(gpu, Overlapped(), graphs)
    assert found == wanted
    assert graphs.forwards.replayed > 0

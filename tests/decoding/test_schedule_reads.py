"""An overlapped step reads one thing from the device, on tensors of a device without values.

Meta tensors know their shape and hold nothing: what the host would have to wait for cannot be read.
What the host sends is watched: a copy from ordinary memory would make it wait as well.
"""

import pytest
import torch
from torch import nn

from specbench.decoding.loop import DecodeLoop
from specbench.decoding.schedule import IN_ORDER, Overlapped
from specbench.decoding.timing import TickRecorder
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.features.drafter import FeatureDrafter
from specbench.drafters.grow.chain import Chain
from specbench.models.heads.packed import PackedHead
from specbench.models.kv_pool import KVPool
from specbench.models.packed import PackedModel
from specbench.models.target import PackedTarget
from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from tests.drafters.toy_head import ToyHead
from tests.models.families import VOCABULARY, build
from tests.queued import DEVICE, Queued
from tests.toys import request, sequence

BATCH = 3


@pytest.fixture
def networks():
    """A target and a head on a device without values."""
    return without_values(build("llama")), without_values(ToyHead())


def without_values(module):
    """The module with the shapes of its parameters and buffers alone."""
    for part in module.modules():
        for name, value in part._parameters.items():
            if value is not None:
                empty = torch.empty(value.shape, dtype=value.dtype, device=DEVICE)
                part._parameters[name] = nn.Parameter(empty, requires_grad=False)
        for name, value in part._buffers.items():
            part._buffers[name] = torch.empty(value.shape, dtype=value.dtype, device=DEVICE)
    return module


def reading(accepted, k):
    """Answers what ``outcome_later`` asks for: everybody accepted so many of ``k`` tokens."""
    path = [*range(accepted), *[-1] * (k + 1 - accepted)]
    row = torch.tensor([*[5] * k, *path, accepted, 7, int(accepted == k), 1, 1])
    table = row.expand(BATCH, -1)
    asked = []

    def read(tensor):
        asked.append(tensor)
        assert tensor.device == DEVICE
        assert tensor.shape == table.shape
        return lambda: table

    read.asked = asked
    return read


def started(networks, k, sampled, rule, schedule, settings):
    """A loop whose requests have been prefilled, and the requests."""
    model, network = networks
    pool = KVPool(BATCH, 96, torch.float32, DEVICE)
    packed = PackedModel(model, "target")
    head = PackedHead(network, "head", VOCABULARY)
    for owner in (packed, head):
        pool.add_owner(owner.owner, owner.geometry())
        owner.use(pool)
    drafter = FeatureDrafter(head, Chain(DraftRows(VOCABULARY, deferred=True), sampled), 96)
    target = PackedTarget(packed, DEVICE)
    rows = [
        sequence(request([3, 1, 4][: i + 1], 30, item=str(i), seed=i, **settings), pool)
        for i in range(BATCH)
    ]
    _, taps = target.prefill(rows, drafter.taps)
    for row in rows:
        row.append(2)
    drafter.admit(rows, taps)
    return DecodeLoop(target, drafter, rule, k, TickRecorder(lambda: 0), False, schedule), rows


HOT = {"temperature": 0.8}
CUT = {"temperature": 0.8, "top_p": 0.9, "top_k": 5}
ARMS = {
    "greedy": (GREEDY, True, {}),
    "rejection": (REJECTION, True, HOT),
    "argmax drafts": (REJECTION, False, HOT),
    "target match": (TARGET_MATCH, True, HOT),
    "cut rows": (REJECTION, True, CUT),
}


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize(("k", "accepted"), [(1, 0), (1, 1), (3, 2)])
def test_steps_ask_for_their_outcome_and_for_nothing_else(networks, arm, k, accepted):
    rule, sampled, settings = ARMS[arm]
    read = reading(accepted, k)
    loop, rows = started(networks, k, sampled, rule, Overlapped(read), settings)
    with Queued():
        for step in range(1, 4):
            loop.step(rows)
            assert len(read.asked) == step
    for row in rows:
        assert row.trace.output_ids == [2, *([*[5] * accepted, 7] * 3)]


@pytest.mark.parametrize(
    "send",
    [
        lambda rows: torch.tensor([1, 2], device=DEVICE),
        lambda rows: torch.tensor([1, 2]).to(DEVICE),
        lambda rows: rows[[0, 1]],
        lambda rows: rows[torch.tensor([0, 1])],
        lambda rows: rows.__setitem__(([0], 0), 1.0),
    ],
)
def test_what_is_sent_otherwise_is_seen(send):
    with Queued(), pytest.raises(AssertionError):
        send(torch.empty(3, 4, device=DEVICE))


@pytest.mark.parametrize("arm", ["greedy", "rejection"])
def test_what_waits_is_seen(networks, arm):
    rule, sampled, settings = ARMS[arm]
    loop, rows = started(networks, 1, sampled, rule, IN_ORDER, settings)
    with pytest.raises(NotImplementedError, match="meta tensor"):
        loop.step(rows)

"""The real kernels of FlashInfer on a GPU, against torch's attention on the same rows."""

import random

import pytest
import torch

from specbench.models.attention import flashinfer
from specbench.models.attention.flashinfer import FlashInfer
from specbench.models.attention.sdpa import SdpaPlan
from specbench.models.kv_pool import KVPool, LayerGeometry
from specbench.models.packed_batch import Segment, pack
from tests.models.scored import random_tree

pytestmark = pytest.mark.gpu
HEADS, KV_HEADS, SIZE, CAPACITY = 8, 2, 128, 4096
SCALE = SIZE**-0.5


@pytest.fixture(scope="module")
def backend():
    library = pytest.importorskip("flashinfer", reason="flashinfer is not installed")
    return FlashInfer(library, torch.device("cuda"))


def tree(chance, slab, start, nodes):
    visible, depths = random_tree(chance, 0, nodes)
    return Segment(slab, start, nodes, visible, torch.tensor(depths))


def batches():
    chance = random.Random(0)
    return {
        "single tokens": [Segment(0, 0, 1), Segment(1, 1000, 1), Segment(3, 4095, 1)],
        "chains": [Segment(2, 0, 300), Segment(0, 17, 5), Segment(1, 3000, 8)],
        "trees": [tree(chance, 0, 40, 32), Segment(1, 3000, 5), tree(chance, 2, 2049, 17)],
    }


@pytest.mark.parametrize("apart_from", [0, 10**9], ids=["prefix apart", "behind a mask"])
@pytest.mark.parametrize("kind", list(batches()))
def test_it_attends_to_what_torch_attends_to(backend, monkeypatch, kind, apart_from):
    monkeypatch.setattr(flashinfer, "APART_FROM", apart_from)
    torch.manual_seed(0)
    pool = KVPool(4, CAPACITY, torch.bfloat16, backend.device)
    pool.add_owner("model", [LayerGeometry(KV_HEADS, SIZE, SIZE)])
    for part in pool.layer("model", 0):
        part.normal_()
    segments = batches()[kind]
    total = sum(segment.count for segment in segments)
    query = torch.randn(1, HEADS, total, SIZE, dtype=torch.bfloat16, device=backend.device)
    new = torch.randn(2, 1, KV_HEADS, total, SIZE, dtype=torch.bfloat16, device=backend.device)
    batch = pack(segments, torch.zeros(total, dtype=torch.int64, device=backend.device), "none")
    asked = (0, query, *new, SCALE, None)
    expected = SdpaPlan(pool, "model", batch).run(*asked)
    found = backend.plan(pool, "model", batch).run(*asked)
    # Both round outputs near 0.1 to 8 bits.
    torch.testing.assert_close(found.float(), expected.float(), atol=4e-3, rtol=2e-2)

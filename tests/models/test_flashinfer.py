"""FlashInfer's plans on a stand-in for the library, against one loop over every score."""

import random
import sys

import pytest
import torch

from specbench.errors import PrerequisiteError
from specbench.models.attention import flashinfer, paged
from specbench.models.attention.flashinfer import FlashInfer, require_flashinfer
from specbench.models.kv_pool import KVPool, LayerGeometry
from specbench.models.packed_batch import Segment, pack
from tests.models.fake_flashinfer import library
from tests.models.scored import CPU, random_segments, random_tree, require_every_score

pytestmark = pytest.mark.usefixtures("one_thread")
DECODE = "BatchDecodeWithPagedKVCacheWrapper"
PREFILL = "BatchPrefillWithPagedKVCacheWrapper"
RAGGED = "BatchPrefillWithRaggedKVCacheWrapper"


@pytest.fixture
def backend(monkeypatch):
    monkeypatch.setattr(library, "made", [])
    monkeypatch.setattr(library, "plans", [])
    return FlashInfer(library, CPU)


def own_trees(chance):
    """Trees whose rows are all new, and a chain between them."""
    segments = [Segment(3, 21, 4), Segment(1, 0, 1)]
    for slab, start in ((0, 0), (2, 30)):
        visible, depths = random_tree(chance, 0, 6)
        segments.append(Segment(slab, start, 6, visible, torch.tensor(depths)))
    return segments


@pytest.mark.parametrize("window", [None, 4, 12, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_trees_behind_a_mask(backend, seed, window):
    torch.manual_seed(seed)
    require_every_score(backend.plan, random_segments(random.Random(seed), 48), window)
    assert library.plans == [PREFILL]


@pytest.mark.parametrize("seed", range(4))
def test_trees_apart_from_what_is_before_them(backend, monkeypatch, seed):
    monkeypatch.setattr(flashinfer, "APART_FROM", 0)
    torch.manual_seed(seed)
    require_every_score(backend.plan, own_trees(random.Random(seed)), None)
    assert library.plans == [PREFILL, RAGGED]


def test_windows_and_trees_begun_before_are_never_apart(backend, monkeypatch):
    monkeypatch.setattr(flashinfer, "APART_FROM", 0)
    torch.manual_seed(0)
    require_every_score(backend.plan, own_trees(random.Random(0)), 4)
    require_every_score(backend.plan, random_segments(random.Random(0), 48), None)
    assert library.plans == [PREFILL, PREFILL]


@pytest.mark.parametrize("window", [None, 3, 20])
def test_chains_are_causal(backend, window):
    torch.manual_seed(0)
    segments = [Segment(2, 0, 16), Segment(0, 17, 5), Segment(1, 31, 1)]
    require_every_score(backend.plan, segments, window)
    assert library.plans == [PREFILL]


@pytest.mark.parametrize("window", [None, 3, 20])
def test_single_tokens_take_the_decode_kernel(backend, window):
    torch.manual_seed(0)
    segments = [Segment(2, 0, 1), Segment(0, 16, 1), Segment(3, 47, 1)]
    require_every_score(backend.plan, segments, window)
    assert library.plans == [DECODE]


def test_wrappers_are_kept_and_layers_share_a_plan(backend):
    pool = KVPool(2, 32, torch.float64, CPU)
    pool.add_owner("model", [LayerGeometry(2, 8, 8)] * 3)
    for step in range(2):
        batch = pack([Segment(1, 5 + step, 1)], torch.zeros(1, dtype=torch.int64), "none")
        plan = backend.plan(pool, "model", batch)
        for layer in range(3):
            rows = torch.randn(1, 2, 1, 8, dtype=torch.float64)
            plan.run(layer, torch.randn(1, 4, 1, 8, dtype=torch.float64), rows, rows, 1.0, None)
    assert library.plans == [DECODE, DECODE]
    assert len(library.made) == 1


def test_a_plan_waits_until_the_device_has_taken_the_one_before(backend, monkeypatch):
    """Both lie in the same page-locked memory of their wrapper."""
    happened = []

    def passed(device):
        number = happened.count("planned")
        happened.append("planned")
        return lambda: happened.append(f"waited for {number}")

    monkeypatch.setattr(flashinfer, "passed", passed)
    pool = KVPool(2, 32, torch.float64, CPU)
    pool.add_owner("model", [LayerGeometry(2, 8, 8)])
    for count in (1, 1, 3, 1):
        batch = pack([Segment(1, 5, count)], torch.zeros(count, dtype=torch.int64), "none")
        rows = torch.randn(1, 2, count, 8, dtype=torch.float64)
        query = torch.randn(1, 4, count, 8, dtype=torch.float64)
        backend.plan(pool, "model", batch).run(0, query, rows, rows, 1.0, None)
    # Chains have a wrapper of their own.
    assert library.plans == [DECODE, DECODE, PREFILL, DECODE]
    assert happened == ["planned", "waited for 0", *["planned"] * 2, "waited for 1", "planned"]


def test_pages_of_requests_by_hand():
    # 2 heads and slabs of 64 rows: a slab begins every 2 * 64 / 16 = 8 pages.
    table = paged.page_table([3, 0, 1], [33, 0, 16], kv_heads=2, capacity=64)
    assert table.indptr.tolist() == [0, 3, 3, 4]
    assert table.indices.tolist() == [24, 25, 26, 8]
    assert table.last[[0, 2]].tolist() == [1, 16]
    assert paged.query_indptr([4, 1, 2]).tolist() == [0, 4, 5, 7]


def test_pages_are_the_rows_of_a_slab():
    layer = torch.arange(3 * 2 * 32 * 4.0).view(3, 2, 32, 4)
    pages = paged.as_pages(layer)
    assert pages.data_ptr() == layer.data_ptr()
    # Slab 2 begins at page 2 * 2 * 32 / 16 = 8; its second page is rows 16 to 31 of both heads.
    assert torch.equal(pages[9], layer[2, :, 16:])
    with pytest.raises(ValueError, match="16 rows"):
        paged.as_pages(torch.zeros(1, 1, 24, 4))


@pytest.mark.parametrize(
    ("dtype", "keys", "values", "said"),
    [
        (torch.float32, 64, 64, "no kernels for float32"),
        (torch.bfloat16, 80, 80, "these are of 80"),
        (torch.bfloat16, 256, 128, "these are of 128, 256"),
    ],
)
def test_layers_without_kernels_are_refused(backend, dtype, keys, values, said):
    with pytest.raises(PrerequisiteError, match=said):
        backend.require("draft:a", [LayerGeometry(2, keys, values)], dtype)


def test_without_a_gpu_it_is_refused():
    with pytest.raises(PrerequisiteError, match="attention = flashinfer runs on CUDA devices"):
        require_flashinfer(CPU)


@pytest.fixture
def gpu(monkeypatch):
    """A CUDA device of a capability, as far as names go."""

    def of(capability):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a made-up GPU")
        return torch.device("cuda")

    return of


def test_a_gpu_before_turing_is_refused(gpu):
    said = r"no kernels for a made-up GPU, of compute capability 7\.0: it begins at 7\.5"
    with pytest.raises(PrerequisiteError, match=said):
        require_flashinfer(gpu((7, 0)))


def test_a_package_that_is_not_here_is_refused(gpu, monkeypatch):
    monkeypatch.setitem(sys.modules, "flashinfer", None)
    with pytest.raises(PrerequisiteError, match="cannot be imported") as caught:
        require_flashinfer(gpu((7, 5)))
    assert "specbench-llm[gpu]" in caught.value.hint


def test_a_package_that_breaks_is_refused(gpu, monkeypatch, tmp_path):
    (tmp_path / "flashinfer.py").write_text("raise OSError('libcudart.so.13: cannot open')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "flashinfer", raising=False)
    with pytest.raises(PrerequisiteError, match=r"installed and cannot.*libcudart\.so\.13"):
        require_flashinfer(gpu((9, 0)))

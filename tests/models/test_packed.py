"""One ragged forward equals separate forwards of transformers, for prompts, trees and chains."""

import pytest
import torch

from specbench.decoding.protocols import Tap
from specbench.decoding.tree import PAD, TokenTree, chain
from specbench.models.kv_pool import KVPool
from specbench.models.packed import PackedModel
from specbench.models.packed_batch import Segment, pack
from specbench.models.target import PackedTarget
from tests.models.families import VOCABULARY, WINDOW, build, reference
from tests.toys import request, sequence

pytestmark = pytest.mark.usefixtures("one_thread")

FAMILIES = ["llama", "qwen2", "qwen3", "gemma3"]
FIRST = [7, 3, 60, 12, 12, 5, 33, 2, 9, 41, 8]
SECOND = [22, 4, 19, 63, 0, 31, 17]
# In float64 transformers still computes norms, softmax and rotary angles in float32.
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-5}
# 0 -> {1, 2}, 2 -> 3, and a second child of the root, 4.
PARENTS = [-1, 0, 0, 2, -1]
NODES = [10, 20, 30, 40, 50]
PATHS = [[], [10], [10, 20], [10, 30], [10, 30, 40], [50]]


def packed(family, dtype=torch.float32, owner="target", **changes):
    model = PackedModel(build(family, dtype=dtype, **changes), owner)
    pool = KVPool(3, 64, dtype, torch.device("cpu"))
    pool.add_owner(owner, model.geometry())
    model.use(pool)
    return model, pool


def close(got, expected, dtype=torch.float32):
    torch.testing.assert_close(got, expected, atol=TOLERANCE[dtype], rtol=1e-5)


def prefilled(family, dtype=torch.float32):
    model, pool = packed(family, dtype)
    target = PackedTarget(model, torch.device("cpu"))
    rows = [sequence(request(prompt, 30), pool) for prompt in (FIRST, SECOND)]
    target_rows, _ = target.prefill(rows, ())
    return target, rows, target_rows, pool


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("family", FAMILIES)
def test_two_prompts_in_one_call(family, dtype):
    model, _ = packed(family, dtype)
    segments = [Segment(2, 0, len(FIRST)), Segment(0, 0, len(SECOND))]
    logits, _ = model.forward(pack(segments, torch.tensor(FIRST + SECOND), "all"))
    plain = reference(build(family, dtype=dtype))
    close(logits, torch.cat([plain(FIRST), plain(SECOND)]), dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_tree_and_a_chain_in_one_call(family, dtype):
    target, rows, first, _ = prefilled(family, dtype)
    plain = reference(build(family, dtype=dtype))
    close(first.raw, torch.stack([plain(FIRST)[-1], plain(SECOND)[-1]]), dtype)
    for row, token in zip(rows, (1, 2), strict=True):
        row.append(token)
    ids = torch.tensor([NODES, [6, 16, 26, PAD, PAD]])
    parents = torch.tensor([PARENTS, [-1, 0, 1, -1, -1]])
    verified, _ = target.verify(rows, TokenTree(ids, parents, (5, 3), False), ())
    for node, path in enumerate(PATHS):
        close(verified.raw[verified.index[0, node]], plain([*FIRST, 1, *path])[-1], dtype)
    expected = plain([*SECOND, 2, 6, 16, 26])[-4:]
    close(verified.raw[verified.index[1, :4]], expected, dtype)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_accepted_path_is_moved_and_read_afterwards(family):
    target, rows, _, pool = prefilled(family)
    for row, token in zip(rows, (1, 2), strict=True):
        row.append(token)
    tree = TokenTree(
        torch.tensor([NODES, [6, 16, PAD, PAD, PAD]]),
        torch.tensor([PARENTS, [-1, 0, -1, -1, -1]]),
        (5, 2),
        False,
    )
    target.verify(rows, tree, ())
    target.commit(rows, tree, [[0, 2, 3], [0]])
    for row, tokens in zip(rows, ([10, 30, 40, 55], [6, 56]), strict=True):
        for token in tokens:
            row.append(token)
    assert pool.view("target", rows[0].slab).length == len(FIRST) + 4
    verified, _ = target.verify(rows, chain(torch.tensor([[11, 21], [13, PAD]]), (2, 1)), ())
    plain = reference(build(family))
    close(verified.raw[verified.index[0]], plain([*FIRST, 1, 10, 30, 40, 55, 11, 21])[-3:])
    close(verified.raw[verified.index[1, :2]], plain([*SECOND, 2, 6, 56, 13])[-2:])


def test_gemma_prompts_are_longer_than_the_window():
    assert min(len(FIRST), len(SECOND)) > WINDOW


@pytest.mark.parametrize("family", FAMILIES)
def test_taps_are_the_hidden_states_of_transformers(family):
    model, _ = packed(family)
    taps = [Tap(0, "entering"), Tap(2, "entering"), Tap(1, "leaving"), Tap(-1, "final")]
    segments = [Segment(0, 0, len(FIRST)), Segment(1, 0, len(SECOND))]
    batch = pack(segments, torch.tensor(FIRST + SECOND), "last")
    logits, states = model.forward(batch, taps)
    assert logits.shape == (2, VOCABULARY)
    plain = build(family)
    plain.set_attn_implementation("eager")
    hidden = [
        plain(input_ids=torch.tensor([p]), output_hidden_states=True).hidden_states
        for p in (FIRST, SECOND)
    ]
    # hidden_states[i] enters layer i; the last one has passed the final norm.
    for tap, at in zip(taps, (0, 2, 2, 3), strict=True):
        close(states[tap], torch.cat([h[at][0] for h in hidden]))
    model.forward(batch)
    assert not [m for m in model.model.modules() if m._forward_hooks or m._forward_pre_hooks]


def test_logits_of_padded_vocabulary_rows_are_impossible():
    mask = torch.zeros(VOCABULARY, dtype=torch.bool)
    mask[60:] = True
    model = PackedModel(build("llama"), "target", mask)
    pool = KVPool(1, 16, torch.float32, torch.device("cpu"))
    pool.add_owner("target", model.geometry())
    model.use(pool)
    logits, _ = model.forward(pack([Segment(0, 0, 3)], torch.tensor([1, 2, 3]), "all"))
    assert logits[:, 60:].isinf().all()
    assert logits[:, :60].isfinite().all()


def test_no_logits_are_computed_where_none_are_wanted():
    model, _ = packed("llama")
    logits, _ = model.forward(pack([Segment(0, 0, 3)], torch.tensor([1, 2, 3]), "none"))
    assert logits.shape == (0, VOCABULARY)

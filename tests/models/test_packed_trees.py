"""Whole models on random trees: every node's logits are those of its path run alone."""

from __future__ import annotations

import random

import pytest
import torch

from specbench.decoding.tree import PAD, ROOT, TokenTree, chain
from specbench.models.attention import sight
from specbench.models.kv_pool import KVPool
from specbench.models.packed import PackedModel
from specbench.models.packed_batch import Segment, pack
from specbench.models.target import PackedTarget
from tests.models.families import VOCABULARY, build, reference
from tests.toys import request, sequence

pytestmark = pytest.mark.usefixtures("one_thread")

FAMILIES = ["llama", "gemma3"]
PROMPTS = [[7, 3, 60, 12, 12, 5, 33, 2, 9, 41, 8], [22], [4, 19, 63, 0, 31, 17]]
APART = pytest.mark.parametrize("split_from", [0, 10**9], ids=["prefix apart", "all at once"])


def close(got, expected):
    torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-5)


def random_parents(chance, count):
    return [chance.randrange(ROOT, node) for node in range(count)]


def path(parents, ids, node):
    """Tokens from the root's child down to a node."""
    return [*path(parents, ids, parents[node]), ids[node]] if node != ROOT else []


def model_of(family, slabs=3):
    model = PackedModel(build(family), "target")
    pool = KVPool(slabs, 64, torch.float32, torch.device("cpu"))
    pool.add_owner("target", model.geometry())
    model.use(pool)
    return model, pool


def prefilled(family):
    """Three requests behind their prompts, each with its first token."""
    model, pool = model_of(family)
    target = PackedTarget(model, torch.device("cpu"))
    rows = [sequence(request(prompt, 30), pool) for prompt in PROMPTS]
    target.prefill(rows, ())
    for token, row in enumerate(rows):
        row.append(token + 1)
    return target, rows


@APART
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(3))
def test_a_batch_of_different_trees(monkeypatch, family, seed, split_from):
    monkeypatch.setattr(sight, "SPLIT_FROM", split_from)
    chance = random.Random(seed)
    target, rows = prefilled(family)
    plain = reference(build(family))
    counts = (9, 0, 5)
    parents = [random_parents(chance, count) for count in counts]
    ids = [[chance.randrange(VOCABULARY) for _ in range(count)] for count in counts]
    tree = TokenTree(
        torch.tensor([line + [PAD] * (9 - len(line)) for line in ids]),
        torch.tensor([line + [ROOT] * (9 - len(line)) for line in parents]),
        counts,
        False,
    )
    verified, _ = target.verify(rows, tree, ())
    for b, row in enumerate(rows):
        for node in range(ROOT, counts[b]):
            expected = plain([*row.tokens.tolist(), *path(parents[b], ids[b], node)])[-1]
            close(verified.raw[verified.index[b, 1 + node]], expected)


@APART
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", range(3))
def test_a_tree_written_in_several_forwards(monkeypatch, family, seed, split_from):
    """Rows of earlier forwards are in the tail of later ones, as when a draft grows."""
    monkeypatch.setattr(sight, "SPLIT_FROM", split_from)
    chance = random.Random(seed)
    model, _ = model_of(family)
    plain = reference(build(family))
    prompts = PROMPTS[:2]
    for slab, prompt in enumerate(prompts):
        model.forward(pack([Segment(slab, 0, len(prompt))], torch.tensor(prompt), "none"))
    parents = [random_parents(chance, 10) for _ in prompts]
    ids = [[chance.randrange(VOCABULARY) for _ in range(10)] for _ in prompts]
    trees = TokenTree(torch.tensor(ids), torch.tensor(parents), (10, 10), False)
    done = [0, 0]
    for shares in ((1, 3), (4, 2), (5, 5)):
        segments, fed = [], []
        for slab, (prompt, new) in enumerate(zip(prompts, shares, strict=True)):
            begin, end = done[slab], done[slab] + new
            visible = trees.ancestors()[slab, begin:end, :end]
            depths = trees.depths()[slab, :end] - 1
            segments.append(Segment(slab, len(prompt) + begin, new, visible, depths))
            fed += ids[slab][begin:end]
            done[slab] = end
        logits, _ = model.forward(pack(segments, torch.tensor(fed), "all"))
        expected = [
            plain([*prompts[slab], *path(parents[slab], ids[slab], node)])[-1]
            for slab, new in enumerate(shares)
            for node in range(done[slab] - new, done[slab])
        ]
        close(logits, torch.stack(expected))


@APART
@pytest.mark.parametrize("family", FAMILIES)
def test_a_tree_of_one_path_is_the_chain_bit_for_bit(monkeypatch, family, split_from):
    monkeypatch.setattr(sight, "SPLIT_FROM", split_from)
    as_chain = chain(torch.tensor([[5, 6, 7, 8], [9, 9, PAD, PAD], [1, 2, 3, PAD]]), (4, 2, 3))
    as_tree = TokenTree(as_chain.ids, as_chain.parents, as_chain.counts, False)
    found = []
    for tree in (as_chain, as_tree):
        target, rows = prefilled(family)
        verified, _ = target.verify(rows, tree, ())
        target.commit(rows, tree, [[0, 1, 2], [], [0]])
        pool = target._model.pool
        kv = [pool.layer("target", layer)[at] for layer in range(3) for at in (0, 1)]
        found.append((verified.raw, torch.stack(kv)))
    for got, expected in zip(*found, strict=True):
        assert torch.equal(got, expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_wrong_mask_or_wrong_positions_would_be_noticed(family):
    target, rows = prefilled(family)
    model, plain = target._model, reference(build(family))
    row, ids = rows[0], [5, 6, 7]
    tree = TokenTree(torch.tensor([ids]), torch.tensor([[ROOT, ROOT, 1]]), (3,), False)
    right = Segment(row.slab, 11, 3, tree.ancestors()[0], tree.depths()[0] - 1)
    expected = plain([*PROMPTS[0], 6, 7])[-1]
    everything = Segment(row.slab, 11, 3, torch.ones(3, 3).tril().bool(), right.depths)
    in_order = Segment(row.slab, 11, 3, right.visible, None)
    for segment, equal in ((right, True), (everything, False), (in_order, False)):
        logits, _ = model.forward(pack([segment], torch.tensor(ids), "all"))
        assert torch.allclose(logits[2], expected, atol=1e-2) == equal

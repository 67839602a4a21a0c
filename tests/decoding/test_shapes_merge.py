"""Merging chains: the tree of their prefixes, every token with its place."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.decoding.shapes.merge import merged
from specbench.decoding.tree import PAD, ROOT, chain

CPU = torch.device("cpu")


def test_common_prefixes_become_one_path():
    tree, places = merged([[[5, 6, 7], [5, 6, 8, 9], [4], [5]]], CPU)
    assert tree.ids.tolist() == [[5, 6, 7, 8, 9, 4]]
    assert tree.parents.tolist() == [[ROOT, 0, 1, 1, 3, ROOT]]
    assert places == [[[0, 1, 2], [0, 1, 3, 4], [5], [0]]]
    assert tree.counts == (6,)
    assert not tree.chain


def test_one_path_is_a_chain():
    tree, places = merged([[[5, 6], [5, 6, 7]], [[3], []], [[], []]], CPU)
    same = chain(torch.tensor([[5, 6, 7], [3, PAD, PAD], [PAD] * 3]), (3, 1, 0))
    assert tree.chain
    assert torch.equal(tree.ids, same.ids)
    assert torch.equal(tree.parents, same.parents)
    assert tree.counts == same.counts
    assert places == [[[0, 1], [0, 1, 2]], [[0], []], [[], []]]


def test_a_token_below_another_parent_is_another_node():
    tree, places = merged([[[1, 1, 1], [2, 1]]], CPU)
    assert tree.ids.tolist() == [[1, 1, 1, 2, 1]]
    assert places == [[[0, 1, 2], [3, 4]]]


def test_nothing_drafted_by_anybody():
    tree, places = merged([[[], []]], CPU)
    assert tree.width == 0
    assert tree.chain
    assert places == [[[], []]]


def test_a_hole_is_refused():
    with pytest.raises(ValueError, match="-1"):
        merged([[[3, -1]]], CPU)


lines = st.lists(st.lists(st.integers(0, 2), max_size=4), max_size=4)


@settings(deadline=None, max_examples=60)
@given(st.lists(lines, min_size=1, max_size=3))
def test_every_prefix_is_one_node(chains):
    tree, places = merged(chains, CPU)
    for b, request in enumerate(chains):
        prefixes = {tuple(line[:n]) for line in request for n in range(1, len(line) + 1)}
        assert tree.counts[b] == len(prefixes)
        assert (tree.ids[b, tree.counts[b] :] == PAD).all()
        ids, parents = tree.ids[b].tolist(), tree.parents[b].tolist()
        for line, place in zip(request, places[b], strict=True):
            assert [ids[node] for node in place] == line
            assert [parents[node] for node in place] == [ROOT, *place][: len(place)]
            assert all(parents[node] < node for node in place)

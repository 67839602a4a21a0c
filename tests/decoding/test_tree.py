"""Depths and visibility against slow definitions on random trees."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.decoding.tree import PAD, ROOT, TokenTree, TrialKind, chain, chain_trials, empty


@st.composite
def parent_lists(draw, width=7):
    count = draw(st.integers(0, width))
    return [draw(st.integers(ROOT, node - 1)) for node in range(count)]


def tree_of(parents, width=7):
    counts = tuple(map(len, parents))
    padded = [line + [ROOT] * (width - len(line)) for line in parents]
    ids = [[1] * len(line) + [PAD] * (width - len(line)) for line in parents]
    return TokenTree(torch.tensor(ids), torch.tensor(padded), counts, False)


def path(parents, node):
    """The node and everything above it."""
    above = []
    while node != ROOT:
        above.append(node)
        node = parents[node]
    return above


@settings(deadline=None, max_examples=60)
@given(st.lists(parent_lists(), min_size=1, max_size=3))
def test_depths_and_ancestors_of_random_trees(parents):
    tree = tree_of(parents)
    depths, ancestors = tree.depths(), tree.ancestors()
    longest = [
        max((len(path(line, node)) for node in range(len(line))), default=0) for line in parents
    ]
    assert list(tree.deepest) == longest
    for b, line in enumerate(parents):
        for node in range(len(line)):
            assert depths[b, node] == len(path(line, node))
            assert set(ancestors[b, node].nonzero().flatten().tolist()) == set(path(line, node))


def test_a_chain_equals_the_tree_with_one_path():
    ids = torch.tensor([[4, 5, 6], [7, PAD, PAD]])
    as_chain = chain(ids, (3, 1))
    as_tree = TokenTree(ids, as_chain.parents, (3, 1), False)
    assert torch.equal(as_chain.depths(), as_tree.depths())
    assert torch.equal(as_chain.ancestors(), as_tree.ancestors())
    assert as_chain.parents.tolist() == [[ROOT, 0, 1]] * 2


def test_holes_and_padding_are_no_nodes_and_get_no_trial():
    tree = chain(torch.tensor([[4, PAD, 6], [7, PAD, PAD]]), (3, 1))
    assert tree.valid().tolist() == [[True, False, True], [True, False, False]]
    trials = chain_trials(tree, TrialKind.ONE_HOT)
    assert trials.node.tolist() == [[0, PAD, 2], [0, PAD, PAD]]
    assert trials.law.tolist() == [[0, 1, 2]] * 2


def test_an_empty_tree_keeps_its_shapes():
    tree = empty(2, torch.device("cpu"))
    assert tree.width == 0
    assert tree.counts == (0, 0)
    assert tree.depths().shape == (2, 0)
    assert tree.ancestors().shape == (2, 0, 0)

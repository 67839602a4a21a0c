"""Options of trees: what they build, what they declare, and what is refused."""

from hashlib import sha256

import pytest

from specbench.decoding.protocols import ANY, CHOSEN, SAMPLED, DrafterInfo
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow.chain import Chain
from specbench.drafters.grow.choose import (
    CHOSEN_TREE,
    SAMPLED_TREE,
    TREE_OPTIONS,
    growth_for,
    tree_facts,
)
from specbench.drafters.grow.dynamic import Dynamic
from specbench.drafters.grow.static import Static
from specbench.errors import UsageError
from tests.drafters.grown import grow, random_rows, requests

ROWS_OF = DraftRows(9)
GREEDY = {"sampling": "greedy"}
GAP = [[0], [2]]


def growth(options, default="chain"):
    return growth_for(options, ROWS_OF, "a", default)


@pytest.mark.parametrize(
    ("options", "default", "kind"),
    [
        ({}, "chain", Chain),
        ({}, "dynamic", Dynamic),
        ({}, "eagle_25", Static),
        ({"tree": "chain"}, "dynamic", Chain),
        ({"tree": "dynamic"}, "chain", Dynamic),
        ({"tree": "dynamic", **GREEDY}, "chain", Dynamic),
        ({"tree": "2x3x1"}, "chain", Static),
        ({"tree": [[0], [1], [0, 0]]}, "dynamic", Static),
        ({"tree": GAP, **GREEDY}, "chain", Static),
    ],
)
def test_what_is_built(options, default, kind):
    assert type(growth(options, default)) is kind


def test_the_shape_and_the_sizes_are_the_ones_asked_for():
    assert [growth({"tree": "2x3x1"}).room(k) for k in (1, 2, 3)] == [2, 8, 14]
    assert growth({}, "eagle_25").room(5) == 25
    assert growth({}, "dynamic").room(6) == 59
    found = grow(
        growth({"nodes": 7, "top_k": 2}, "dynamic"), requests([1.0]), [3], random_rows(1, 9)
    )
    assert found.draft.tree.counts == (7,)
    assert found.draft.proposed == (2 + 4 + 4,)


def test_what_a_search_found_is_what_is_recorded(tmp_path):
    """The chances of paths are 0.7, 0.2, then 0.7 x 0.5 and so on; the best three are a tree."""
    file = tmp_path / "accuracies.json"
    file.write_text('{"accuracies": [[0.7, 0.2], [0.5, 0.1]]}')
    options = {"tree": f"best_first:3:{file}"}
    known = {"kind": "static", "sampling": "sampled", "nodes": 3}
    assert growth(options).facts() == {**known, "depth": 2, "paths": [[0], [1], [0, 0]]}
    # The same option, another file: 0.7, 0.63 and 0.567 along one path.
    file.write_text('{"accuracies": [[0.7, 0.2], [0.9, 0.1], [0.9, 0.1]]}')
    assert growth(options).facts() == {**known, "depth": 3, "paths": [[0], [0, 0], [0, 0, 0]]}


def test_large_shapes_are_recorded_by_hash():
    listed = "[" + ",".join(f"[{rank}]" for rank in range(65)) + "]"
    found = growth({"tree": "65", **GREEDY}).facts()
    assert found == {
        "kind": "static",
        "sampling": "greedy",
        "nodes": 65,
        "depth": 1,
        "paths_sha256": sha256(listed.encode()).hexdigest(),
    }
    # Nodes that are listed in another order are the same shape.
    backwards = [[rank] for rank in reversed(range(65))]
    assert growth({"tree": backwards, **GREEDY}).facts() == found
    assert len(growth({"tree": "64"}).facts()["paths"]) == 64


def test_chains_and_dynamic_trees_are_recorded():
    assert growth({}).facts() == {"kind": "chain", "sampling": "sampled"}
    assert growth(GREEDY).facts() == {"kind": "chain", "sampling": "greedy"}
    sizes = {"nodes": 7, "top_k": 2}
    assert growth(sizes, "dynamic").facts() == {"kind": "dynamic", **sizes}


def drafts(options, default):
    """Law and trials of what the options really draft, at temperature 1."""
    built = growth(options, default)
    draft = grow(built, requests([1.0]), [3], random_rows(1, 9)).draft
    law = "dense" if hasattr(draft.laws, "rows") else "one_hot"
    return law, draft.trials.kind.name.lower()


@pytest.mark.parametrize("default", ["chain", "dynamic", "eagle_25"])
@pytest.mark.parametrize("tree", [None, "chain", "dynamic", "2x2x1", [[0], [1]]])
@pytest.mark.parametrize("sampling", [None, "sampled", "greedy"])
def test_what_is_declared_is_what_is_drafted(default, tree, sampling):
    options = {
        name: value for name, value in (("tree", tree), ("sampling", sampling)) if value is not None
    }
    if (tree or default) == "dynamic" and sampling == "sampled":
        return
    default_facts, variants = tree_facts(default)
    facts = DrafterInfo("d", "", "", default_facts, variants=variants).facts(options)
    assert (facts.law, facts.trials) == drafts(options, default)
    assert facts.tree is ((tree or default) != "chain")


def test_declared_facts_by_name():
    default, variants = tree_facts("chain")
    assert default == SAMPLED
    assert {tuple(sorted(o.items())): f for o, f in variants} == {
        (("sampling", "greedy"),): CHOSEN,
        (("tree", ANY),): SAMPLED_TREE,
        (("sampling", "greedy"), ("tree", ANY)): CHOSEN_TREE,
        (("tree", "chain"),): SAMPLED,
        (("sampling", "greedy"), ("tree", "chain")): CHOSEN,
        (("tree", "dynamic"),): CHOSEN_TREE,
        (("sampling", "greedy"), ("tree", "dynamic")): CHOSEN_TREE,
    }
    assert set(TREE_OPTIONS) == {"tree", "nodes", "top_k", "sampling"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 8}, "nodes = 8 needs a dynamic tree, not 'chain'"),
        ({"tree": "2x2", "top_k": 8}, "top_k = 8 needs a dynamic tree, not '2x2'"),
        ({"tree": "dynamic", "sampling": "sampled"}, "sampling = 'sampled' with tree = 'dynamic'"),
        ({"tree": "dynamic", "nodes": 0}, "nodes = 0"),
        ({"tree": "dynamic", "nodes": 2000}, "nodes = 2000"),
        ({"tree": "dynamic", "nodes": "many"}, "nodes='many' is not a whole number"),
        ({"tree": "dynamic", "top_k": -1}, "top_k = -1"),
        ({"tree": GAP}, r"holds the path \[2\] but not \[1\]"),
        ({"tree": "eagel_25"}, "eagel_25"),
        ({"tree": 7}, "7"),
        ({"sampling": "random"}, "sampling='random'"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(UsageError, match=f"arm a.*{message}"):
        growth(options)

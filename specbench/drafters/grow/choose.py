"""The options by which an arm chooses how its drafts grow, one way for all drafters with logits."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.decoding.protocols import ANY, CHOSEN, SAMPLED, DraftFacts, Options
from specbench.decoding.shapes.parse import parse_shape
from specbench.drafters.build import choice, whole
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow.chain import Chain
from specbench.drafters.grow.dynamic import Dynamic
from specbench.drafters.grow.growth import Growth
from specbench.drafters.grow.static import Static, gap
from specbench.errors import UsageError

NODES, TOP_K = 59, 10
"""EAGLE-2's defaults: 60 verified rows with the root, and ten candidates per node."""
MOST_NODES, MOST_CANDIDATES = 1024, 64

CHOSEN_TREE = DraftFacts("one_hot", "deterministic_set", tree=True)
"""Trees whose children are chosen without chance."""
SAMPLED_TREE = DraftFacts("dense", "without_replacement", tree=True)
"""Trees whose children are drawn without replacement."""

TREE_OPTIONS = {
    "tree": "chain, dynamic, or a static shape: a name, 4x3x2, best_first:N:FILE, optimal:N:FILE "
    "or a list of rank paths",
    "nodes": f"nodes of a dynamic tree, the root not counted ({NODES})",
    "top_k": f"candidates per node of a dynamic tree ({TOP_K})",
    "sampling": "sampled: draw from the processed row, siblings without replacement; greedy: take "
    "the best tokens, as dynamic trees always do (sampled)",
}
"""Option name -> what it means, for ``DrafterInfo.options``; a drafter adds its default tree."""


def tree_facts(default_tree: str) -> tuple[DraftFacts, Sequence[tuple[Options, DraftFacts]]]:
    """``default`` and ``variants`` of a ``DrafterInfo``."""
    greedy = {"sampling": "greedy"}
    own: dict[str, tuple[DraftFacts, DraftFacts]] = {
        "chain": (SAMPLED, CHOSEN),
        "dynamic": (CHOSEN_TREE, CHOSEN_TREE),
    }
    default = own.get(default_tree, (SAMPLED_TREE, CHOSEN_TREE))
    variants: list[tuple[Options, DraftFacts]] = [(greedy, default[1])]
    for tree, (drawn, chosen) in {ANY: (SAMPLED_TREE, CHOSEN_TREE), **own}.items():
        variants += [({"tree": tree}, drawn), ({"tree": tree, **greedy}, chosen)]
    return default[0], tuple(variants)


def growth_for(
    options: dict[str, object], rows_of: DraftRows, arm: str, default_tree: str
) -> Growth:
    """What an arm's options ``tree``, ``nodes``, ``top_k`` and ``sampling`` ask for.

    Raises:
        UsageError: an unknown shape, a number out of range, or options that exclude each other.
    """
    tree = options.get("tree", default_tree)
    sampled = choice(options, "sampling", ("sampled", "greedy"), arm) == "sampled"
    if tree == "dynamic":
        return _dynamic(options, rows_of, arm)
    for name in ("nodes", "top_k"):
        if name in options:
            raise UsageError(
                f"arm {arm}: {name} = {options[name]!r} needs a dynamic tree, not {tree!r}",
                f"leave {name} out, or set tree = 'dynamic'",
            )
    if tree == "chain":
        return Chain(rows_of, sampled)
    shape = parse_shape(tree, f"arm {arm}")
    missing = gap(shape) if sampled else None
    if missing is not None:
        raise UsageError(
            f"arm {arm}: tree holds the path {list(missing)} but not "
            f"{[*missing[:-1], missing[-1] - 1]}; siblings are drawn one after the other, so none "
            "can be left out",
            "add the path, or set sampling = 'greedy'",
        )
    return Static(shape, rows_of, sampled)


def _dynamic(options: dict[str, object], rows_of: DraftRows, arm: str) -> Dynamic:
    if options.get("sampling") == "sampled":
        raise UsageError(
            f"arm {arm}: sampling = 'sampled' with tree = 'dynamic': which nodes are kept depends "
            "on their probabilities, so draws of them would have another law than the draft's",
            "leave sampling out, or take a static tree",
        )
    nodes = _between(options, "nodes", NODES, MOST_NODES, arm)
    return Dynamic(nodes, _between(options, "top_k", TOP_K, MOST_CANDIDATES, arm), rows_of)


def _between(options: dict[str, object], name: str, default: int, most: int, arm: str) -> int:
    value = whole(options, name, default, arm)
    if not 1 <= value <= most:
        raise UsageError(f"arm {arm}: {name} = {value}", f"use 1 .. {most}, e.g. {default}")
    return value

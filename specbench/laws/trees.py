"""The law of what one round emits when a rule judges small trees, integrated exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

import torch
from torch import Tensor

from specbench.decoding.laws import DenseLaws, DraftLaws, OneHotLaws
from specbench.decoding.protocols import Rule, Uniforms
from specbench.decoding.tree import TrialKind
from specbench.laws.codes import encode
from specbench.laws.drawn_trees import TreeTable, children, choices, drawn_trees
from specbench.laws.integrate import integrate
from specbench.laws.outputs import EXACT, RoundLaw, gather
from specbench.laws.packed_trees import packed
from specbench.laws.rules import judged, target_rows
from specbench.laws.tables import (
    FOUR_DRAFT,
    FOUR_TARGET,
    GOLDEN,
    THREE_DRAFT,
    THREE_TARGET,
    TWO,
)

_SHAPES = (
    ("2 children, four tokens", FOUR_TARGET, FOUR_DRAFT, (2,)),
    ("3 children, three tokens", *GOLDEN, (3,)),
    ("2 children with 1 each, three tokens", THREE_TARGET, THREE_DRAFT, (2, 1)),
    ("2 children with 2 each, two tokens", *TWO, (2, 2)),
)
TREES = tuple(
    TreeTable(f"{kind.name.lower()}: {name}", target, draft, kind, shape)
    for kind in (TrialKind.IID, TrialKind.WITHOUT_REPLACEMENT, TrialKind.DETERMINISTIC_SET)
    for name, target, draft, shape in _SHAPES
) + tuple(
    # Every further drafter says of each token what the one before says of its neighbour.
    TreeTable(
        f"independent: {name}",
        target,
        draft,
        TrialKind.INDEPENDENT,
        shape,
        others=tuple(draft.roll(turn, 1) for turn in range(1, max(shape))),
    )
    for name, target, draft, shape in _SHAPES
)
_DRAWN = (TrialKind.IID, TrialKind.INDEPENDENT, TrialKind.WITHOUT_REPLACEMENT)


def tree_law(rule: Rule, table: TreeTable) -> RoundLaw:
    """Law of one round over every draw of the tree and all uniform numbers."""
    drawn = packed(drawn_trees(table))
    size, width = len(table.target), len(table.shape) + 1
    trials = drawn.trial_node.shape[1]
    before = torch.cat([drawn.start[:, None], drawn.ids], 1)
    # Padding repeats the root's row.
    before = torch.where(before < 0, drawn.start[:, None], before)

    def judge(context: Tensor, points: Tensor) -> Tensor:
        tree = drawn.tree(context)
        laws: DraftLaws = OneHotLaws()
        if table.kind in _DRAWN:
            laws = DenseLaws(torch.cat([draft[before[context]] for draft in table.drafts], 1))
        rows = target_rows(table.target, before[context], table.temperature)
        last = points[:, trials]
        # A rule reads either trial numbers or its own draws, at the root and behind every node.
        uniforms = Uniforms(points[:, :trials], last, last, points[:, : tree.width + 1])
        trial = drawn.trials(context, table.kind)
        tokens = judged(rule, tree, trial, rows, laws, uniforms, drawn.start[context])
        return encode(tokens[:, :width], size)

    found = integrate(judge, len(drawn.mass), trials + 1)
    mass = found.volume * drawn.mass[found.context]
    doubt = float((found.doubt * drawn.mass).sum())
    start = drawn.start[found.context]
    return gather(start, found.code, mass, size, width, doubt)


def best_acceptance(
    target: Sequence[float], draft: Sequence[float], k: int, kind: TrialKind
) -> float:
    """Largest chance that any rule without loss accepts one of k candidates from one draft row.

    Raises:
        ValueError: independent draws, which come from several rows.
    """
    return _best_acceptance(target, choices(draft, k, kind))


def _best_acceptance(
    target: Sequence[float], candidates: Iterable[tuple[Sequence[int], float]]
) -> float:
    """Largest chance that any rule without loss accepts one of the candidates of one position.

    Optimal transport: the minimum over token sets H of target(H) + 1 - P(all candidates in H)
    (Hu et al. 2502.18779; SpecTr 2310.15141). Exponential in the vocabulary.
    """
    drawn = [(frozenset(tokens), mass) for tokens, mass in candidates]
    best = 1.0
    for count in range(len(target) + 1):
        for chosen in combinations(range(len(target)), count):
            inside = sum(mass for tokens, mass in drawn if tokens <= set(chosen))
            best = min(best, sum(target[token] for token in chosen) + 1 - inside)
    return best


def beyond_best(law: RoundLaw, table: TreeTable) -> str:
    """Why a rule keeps a candidate more often than any exact one can; empty where it does not."""
    kept = law.emits(2).tolist()
    drafts = [draft.double().tolist() for draft in table.drafts]
    for start, target in enumerate(table.target.double().tolist()):
        rows = [draft[start] for draft in drafts]
        best = _best_acceptance(target, children(rows, table.shape[0], table.kind))
        if kept[start] > best + EXACT:
            return f"keeps a candidate with {kept[start]:.4f}, but {best:.4f} is the best possible"
    return ""

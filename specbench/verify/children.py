"""The candidates of a batch by parent, on the host.

Rules for trees walk request by request: which candidate comes next depends on the last outcome.
They walk over plain numbers; what is of vocabulary size stays tensor work over the whole batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import PAD, TokenTree, TrialKind, Trials

WITHOUT_CHANCE = (TrialKind.ONE_HOT, TrialKind.DETERMINISTIC_SET)
"""Kinds whose candidates are certain: each was drawn from a one-hot law, whatever rows are kept."""
WITH_REPEATS = (TrialKind.IID, TrialKind.INDEPENDENT)
"""Kinds whose candidates know nothing of each other, so that a token may come twice."""


class Candidate(NamedTuple):
    """One trial.

    Attributes:
        node, token: the node tried, and its id, which names a token of the target.
        law: row of the law that the token was drawn from.
        draft: its probability there, above 0; 1 for candidates chosen without chance.
        number: the trial's own accept number in [0, 1).
    """

    node: int
    token: int
    law: int
    draft: float
    number: float


@dataclass(frozen=True, slots=True)
class Children:
    """What can be tried in one request's tree.

    Attributes:
        by_parent: candidates in the order of their trials; no entry for leaves.
        refused: parents with a child that cannot have been drawn: a hole, an id out of range, or
            one of no mass. Such a child counts as rejected and takes nothing off the target.
        places: packed target row behind the root and behind every node, [N + 1].
        greedy: whether the request is at temperature 0.
    """

    by_parent: Mapping[int, Sequence[Candidate]]
    refused: frozenset[int]
    places: Sequence[int]
    greedy: bool


def children(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    uniforms: Uniforms,
    laws: DraftLaws | None,
) -> list[Children]:
    """Candidates of every request, in batch order.

    Independent draws that gave the same token stay candidates of their own. Otherwise a repeated
    token is dropped: its mass left with the first.

    Args:
        tree, trials, rows, uniforms: as a rule gets them.
        laws: None for rules that do not read draft laws.
    """
    node = trials.node.clamp(min=0)
    token = torch.where(trials.node == PAD, PAD, tree.ids.gather(1, node))
    draft = torch.ones_like(uniforms.accept)
    inside = (token >= 0) & (token < rows.raw.shape[1])
    if laws is not None and trials.kind not in WITHOUT_CHANCE:
        draft = laws.token_probs(token, trials.law).double()
    draft = torch.where(inside, draft, 0.0)
    whole = torch.stack([trials.parent, trials.node, token, trials.law], 2).tolist()
    numbers = torch.stack([draft, uniforms.accept], 2).tolist()
    repeats = laws is not None and trials.kind in WITH_REPEATS
    holes = _holes(tree)
    found = []
    for b, places in enumerate(rows.index.tolist()):
        refused = holes[b]
        by_parent: dict[int, list[Candidate]] = {}
        seen: set[tuple[int, int]] = set()
        for (parent, at, name, law), (own, number) in zip(whole[b], numbers[b], strict=True):
            if at == PAD:
                continue
            if own <= 0:
                refused.add(parent)
            elif repeats or (parent, name) not in seen:
                seen.add((parent, name))
                by_parent.setdefault(parent, []).append(Candidate(at, name, law, own, number))
        greedy = rows.sampling[places[0]].greedy
        found.append(Children(by_parent, frozenset(refused), places, greedy))
    return found


def entries(row: Tensor, candidates: Sequence[Candidate]) -> list[float]:
    """What a row [V] holds for the tokens of candidates."""
    if len(candidates) == 1:
        # No index to build, and on a device none to send.
        return [float(row[candidates[0].token])]
    return row[[candidate.token for candidate in candidates]].tolist()


def _holes(tree: TokenTree) -> list[set[int]]:
    """Parents of holes, nodes with a negative id, per request; holes have no trial."""
    found: list[set[int]] = [set() for _ in tree.counts]
    real = torch.arange(tree.width, device=tree.ids.device) < torch.tensor(
        tree.counts, device=tree.ids.device
    ).unsqueeze(1)
    for b, node in (real & ~tree.valid()).nonzero().tolist():
        found[b].add(int(tree.parents[b, node]))
    return found

"""The price of a rule without a known law: the pure rule repeated at a step with fresh numbers.

Only the first token of the step is looked at: its position is reached whatever the rule does. The
tokens are grouped into the candidates tried at the root and the target's first choice, one group
each, and all others. One half of the repeats says in which groups the rule emits more than the
target does; the other half measures by how much. So the value is unbiased for a lower bound of the
total variation, and may be negative where that is near 0. The draft is taken as given, which is
right for drafts made without chance; sampled drafts have no such price.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from specbench.decoding.protocols import Draft, Rule, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.tree import PAD, ROOT, TokenTree, Trials

REPEATS = 128
STRIDE = 8
"""One step in so many is priced: each costs ``REPEATS`` runs of the rule."""


def has_siblings(draft: Draft) -> bool:
    """Whether some parent has several candidates, so that no law of one token is known."""
    parents, real = draft.trials.parent, draft.trials.node != PAD
    ordered = torch.where(real, parents, ROOT - 1).sort(1).values
    return bool(((ordered.diff(dim=1) == 0) & (ordered[:, 1:] >= ROOT)).any())


def sampled_prices(
    sequences: Sequence[DecodedSequence], draft: Draft, rows: TargetRows, rule: Rule
) -> list[float | None]:
    """Per request: estimated total variation of the step's first token; None between strides."""
    prices: list[float | None] = []
    for b, sequence in enumerate(sequences):
        due = sequence.step % STRIDE == 0 and not sequence.request.sampling.greedy
        prices.append(_price(sequence, draft, rows, rule, b) if due else None)
    return prices


def _price(sequence: DecodedSequence, draft: Draft, rows: TargetRows, rule: Rule, b: int) -> float:
    tree, trials = draft.tree, draft.trials
    many = lambda column: column[b : b + 1].expand(REPEATS, *column.shape[1:])  # noqa: E731
    copies = TokenTree(many(tree.ids), many(tree.parents), (tree.counts[b],) * REPEATS, tree.chain)
    tried = Trials(many(trials.parent), many(trials.node), many(trials.law), trials.kind)
    numbers = _numbers(sequence, tried.node.shape[1], tree.width, rows.raw.device)
    states = [sequence.rule_state] * REPEATS
    laws = draft.laws.repeat(b, REPEATS)
    verdict, _ = rule(copies, tried, rows.repeat(b, REPEATS), laws, states, numbers)
    first = verdict.next_token
    if tree.width:
        accepted = tree.ids[b][verdict.path[:, 0].clamp(min=0)]
        first = torch.where(verdict.n_accepted > 0, accepted, first)
    at_root = (trials.parent[b] == ROOT) & (trials.node[b] != PAD)
    target = rows.processed()[rows.index[b, 0]]
    named = torch.cat([tree.ids[b][trials.node[b][at_root]], target.argmax()[None]]).unique()
    return _lower_bound(first, named[(named >= 0) & (named < len(target))], target)


def _lower_bound(first: Tensor, candidates: Tensor, target: Tensor) -> float:
    """Half the signed excess over groups, signs from one half of the draws, size from the other."""
    hits = (first[:, None] == candidates).double()
    groups = torch.cat([hits, 1 - hits.sum(1, keepdim=True)], 1)
    own = target[candidates].double()
    wanted = torch.cat([own, 1 - own.sum(0, keepdim=True)])
    half = REPEATS // 2
    signs = (groups[:half].mean(0) - wanted).sign()
    return float((signs * (groups[half:].mean(0) - wanted)).sum() / 2)


def _numbers(sequence: DecodedSequence, trials: int, nodes: int, device: torch.device) -> Uniforms:
    """Numbers of their own, keyed by request and step, unrelated to those of decoding."""
    generator = np.random.Generator(np.random.Philox([sequence.request.seed, sequence.step]))

    def table(*shape: int) -> Tensor:
        return torch.from_numpy(generator.random((REPEATS, *shape))).to(device)

    return Uniforms(table(trials), table(), table(), table(nodes + 1))

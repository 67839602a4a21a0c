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


def has_siblings(draft: Draft) -> list[bool]:
    """Per request: whether a parent has several candidates: no law of one token is known."""
    parents, real = draft.trials.parent, draft.trials.node != PAD
    ordered = torch.where(real, parents, ROOT - 1).sort(1).values
    several = (ordered.diff(dim=1) == 0) & (ordered[:, 1:] >= ROOT)
    return several.any(1).tolist()


def sampled_prices(
    sequences: Sequence[DecodedSequence],
    draft: Draft,
    rows: TargetRows,
    rule: Rule,
    wanted: Sequence[bool],
) -> list[float | None]:
    """Per request: estimated total variation of the step's first token.

    None between strides, at temperature 0, and where it is not ``wanted``.
    """
    prices: list[float | None] = []
    for b, (sequence, asked) in enumerate(zip(sequences, wanted, strict=True)):
        sampled = not sequence.request.sampling.greedy
        due = asked and sampled and sequence.step % STRIDE == 0
        prices.append(_price(sequence, draft, rows, rule, b) if due else None)
    return prices


def _price(sequence: DecodedSequence, draft: Draft, rows: TargetRows, rule: Rule, b: int) -> float:
    tree, trials = draft.tree, draft.trials
    # What pads this draft to its neighbours' is left out: the numbers must not depend on it.
    nodes, tries = tree.counts[b], _width(trials.node[b] != PAD)
    many = lambda column, size: column[b : b + 1, :size].expand(REPEATS, size)  # noqa: E731
    copies = TokenTree(
        many(tree.ids, nodes), many(tree.parents, nodes), (nodes,) * REPEATS, tree.lines[b]
    )
    tried = Trials(
        many(trials.parent, tries), many(trials.node, tries), many(trials.law, tries), trials.kind
    )
    numbers = _numbers(sequence, tries, nodes, rows.raw.device)
    states = [sequence.rule_state] * REPEATS
    laws = draft.laws.repeat(b, REPEATS)
    verdict, _ = rule(copies, tried, rows.repeat(b, REPEATS, nodes), laws, states, numbers)
    first = verdict.next_token
    if nodes:
        accepted = tree.ids[b][verdict.path[:, 0].clamp(min=0)]
        first = torch.where(verdict.n_accepted > 0, accepted, first)
    at_root = (trials.parent[b] == ROOT) & (trials.node[b] != PAD)
    target = rows.processed()[rows.index[b, 0]]
    named = torch.cat([tree.ids[b][trials.node[b][at_root]], target.argmax()[None]]).unique()
    return _lower_bound(first, named[(named >= 0) & (named < len(target))], target)


def _width(flags: Tensor) -> int:
    """Length of a row of flags up to the last that is set."""
    return 1 + max(flags.nonzero().flatten().tolist(), default=-1)


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

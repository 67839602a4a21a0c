"""Chains of several drafters as one draft: nodes are merged, draws are not.

Source: Miao et al. 2305.09781 (SpecInfer), section 4.3. Chains that begin alike share nodes. Two
draws that gave the same token stay two trials of it, each with the law of its own drafter: taking
one of them away would leave the other with another law than it was drawn from. The order of the
trials at a node is that of the chains, which is fixed before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch

from specbench.core.trace import ShortDraft
from specbench.decoding.laws import DenseLaws, OneHotLaws
from specbench.decoding.protocols import Draft
from specbench.decoding.shapes.merge import merged
from specbench.decoding.tree import PAD, ROOT, TrialKind, Trials
from specbench.drafters.tree import padded

Trial = tuple[int, int, int]
"""Parent, node and law row."""


def merged_draft(
    drafts: Sequence[Draft], short: Sequence[ShortDraft], device: torch.device
) -> Draft:
    """One tree of all chains; ``Draft.proposed`` counts every draw.

    Args:
        drafts: chains of the same requests in the order of their trials, all of dense laws or all
            chosen without chance.
        short: per request, why the longest of its chains is short.
        device: of the tree.
    """
    ids = [draft.tree.ids.tolist() for draft in drafts]
    counts = list(zip(*(draft.tree.counts for draft in drafts), strict=True))
    chains = [
        [line[b][:count] for line, count in zip(ids, each, strict=True)]
        for b, each in enumerate(counts)
    ]
    tree, places = merged(chains, device)
    rows = [draft.laws.rows for draft in drafts if isinstance(draft.laws, DenseLaws)]
    # Law rows of the chains stand behind each other.
    starts = [0, *accumulate(draft.tree.width for draft in drafts)]
    tried = [_trials(place, starts) for place in places]
    if not rows:
        tried = [_once(trials) for trials in tried]
    parent, node, law = (
        padded([[one[i] for one in line] for line in tried], fill).to(device)
        for i, fill in enumerate((ROOT, PAD, 0))
    )
    kind = TrialKind.INDEPENDENT if rows else TrialKind.DETERMINISTIC_SET
    laws = DenseLaws(torch.cat(rows, 1)) if rows else OneHotLaws()
    proposed = tuple(map(sum, counts))
    return Draft(tree, Trials(parent, node, law, kind), laws, tuple(short), proposed)


def _trials(places: Sequence[Sequence[int]], starts: Sequence[int]) -> list[Trial]:
    """Parent, node and law row of every draw of one request, model by model at every depth.

    Args:
        places: per chain, the nodes of its tokens.
        starts: law row of every chain's first token.
    """
    return [
        (places[model][depth - 1] if depth else ROOT, places[model][depth], starts[model] + depth)
        for depth in range(max(map(len, places)))
        for model in range(len(places))
        if depth < len(places[model])
    ]


def _once(trials: Sequence[Trial]) -> list[Trial]:
    """The first trial of every node: a token chosen twice without chance is one candidate."""
    found: dict[int, Trial] = {}
    for trial in trials:
        found.setdefault(trial[1], trial)
    return list(found.values())

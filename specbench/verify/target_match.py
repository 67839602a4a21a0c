"""Target match: the target draws its own token at every position; drafts equal to it are kept.

Lossless for any draft, with acceptance sum(target * draft) <= sum(min(target, draft)). With the
``TARGET`` stream keyed by absolute position, the output equals plain sampling token for token.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Acceptance, Lossless, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import draw
from specbench.decoding.tree import TokenTree, Trials
from specbench.verify.argmax import descend, follow
from specbench.verify.listed import ListedRule

INFO = RuleInfo(
    name="target_match",
    source="exact match with the target's own draw; transformers' rule for prompt lookup",
    lossless=Lossless.PROVEN,
    needs="processed",
    laws=("one_hot", "dense"),
    tree=True,
    temperature_zero="argmax match",
    device_only=True,
)


def target_match(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
) -> tuple[Acceptance, States]:
    """Draw the target's token at every position; accept while the draft agrees, then emit it."""
    if tree.chain:
        processed = rows.processed()[rows.index.flatten()]
        drawn = draw(processed, uniforms.target.flatten()).view(rows.index.shape)
        return follow(tree, drawn), states

    def choose(request: Tensor, position: Tensor) -> Tensor:
        target = rows.processed_rows(rows.index[request, position].tolist())
        return draw(torch.stack(target), uniforms.target[request, position])

    return descend(tree, choose), states


RULE = ListedRule(INFO, target_match)

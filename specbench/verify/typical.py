"""Typical acceptance (Medusa): keep a draft whose target probability exceeds an entropy threshold.

Cai et al. 2401.10774, section 2.3.1 and the released code. The token after the accepted drafts is
the target's argmax, also above temperature 0; the output is not distributed as the target's.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.core.parameter import Parameter
from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Acceptance, Lossless, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TokenTree, Trials
from specbench.verify.chain import accepted_prefix
from specbench.verify.listed import ListedRule
from specbench.verify.longest import longest

_INSIDE_LOG = 1e-5
"""Added to probabilities inside the entropy's logarithm, as in the released code."""

INFO = RuleInfo(
    name="typical",
    source="Cai et al. 2024, 2401.10774, section 2.3.1 (Medusa), released code",
    lossless=Lossless.LOSSY,
    needs="tempered",
    laws=("one_hot", "dense"),
    tree=True,
    temperature_zero="argmax match",
    parameters={
        "epsilon": Parameter("hard threshold on the target probability", 0.09, 0, 1, True),
        "delta": Parameter("factor of exp(-entropy) in the soft threshold", 0.3, 0, 1e9, True),
    },
    device_only=True,
)


def typical(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
    *,
    epsilon: float,
    delta: float,
) -> tuple[Acceptance, States]:
    """Accept x iff target(x) > min(epsilon, delta * exp(-entropy)); emit the argmax after them.

    Of a tree's ways the one with most leading accepted tokens is kept; among equals the one whose
    accepted tokens have the largest sum of log target(x), then the first.
    """
    target = rows.tempered()
    threshold = _threshold(target, epsilon, delta)[rows.before(tree)]
    own = rows.pick(target, tree)
    if not tree.chain:
        return longest(tree, own > threshold, own.log(), rows.argmax()), states
    path, count, kind = accepted_prefix(tree, own > threshold)
    next_token = rows.argmax().gather(1, count[:, None]).squeeze(1)
    return Acceptance(path, count, next_token, kind), states


def law(
    rows: TargetRows,
    places: Tensor,
    draft: Tensor | None,
    states: States,
    *,
    epsilon: float,
    delta: float,
) -> Tensor:
    """The draft where it passes the threshold; all other mass on the argmax."""
    target = rows.tempered()[places]
    kept = torch.zeros_like(target)
    if draft is not None:
        kept = torch.where(target > _threshold(target, epsilon, delta)[:, None], draft, 0.0)
    best = rows.adjusted[places].argmax(1, keepdim=True)
    return kept.scatter_add_(1, best, (1 - kept.sum(1, keepdim=True)).clamp(min=0.0))


def _threshold(target: Tensor, epsilon: float, delta: float) -> Tensor:
    """min(epsilon, delta * exp(-entropy)) of each row."""
    entropy = -(target * (target + _INSIDE_LOG).log()).sum(1)
    return (delta * torch.exp(-entropy)).clamp(max=epsilon)


RULE = ListedRule(INFO, typical, law=law)

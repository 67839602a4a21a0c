"""Rejection sampling that accepts more and is no longer exact (Leviathan et al. 2211.17192, A.5).

A token's output probability is at most target / lenience, and the total variation per position at
most 1 - lenience; what a run really pays is measured, not assumed.
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
from specbench.verify.ratio import ratio_test

INFO = RuleInfo(
    name="lenient",
    source="Leviathan et al. 2023, 2211.17192, appendix A.5 (lenience)",
    lossless=Lossless.LOSSY,
    needs="processed",
    laws=("one_hot", "dense"),
    tree=False,
    temperature_zero="target(x) >= lenience * max(target); both at temperature 1",
    exact_at={"lenience": 1},
    parameters={
        "lenience": Parameter("factor l of the draft in the ratio; 1 is exact", 0.9, 0, 1, True)
    },
    device_only=True,
)


def lenient(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
    *,
    lenience: float,
) -> tuple[Acceptance, States]:
    """Accept with min(1, target / (l draft)); else draw from relu(target - l draft)."""
    return ratio_test(tree, trials, rows, laws, uniforms, lenience), states


def at_zero(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
    *,
    lenience: float,
) -> tuple[Acceptance, States]:
    """Accept drafts nearly as likely as the argmax; emit the argmax after them."""
    probs = rows.untempered()
    largest = probs.amax(1)[rows.before(tree)]
    own = rows.pick(probs, tree)
    passed = (own > 0) & (own >= lenience * largest)
    if lenience == 1:
        # The argmax, not its equals: ties go to the lowest id, as everywhere.
        passed = tree.ids == rows.argmax()[:, :-1]
    path, count, kind = accepted_prefix(tree, passed)
    next_token = rows.argmax().gather(1, count[:, None]).squeeze(1)
    return Acceptance(path, count, next_token, kind), states


def law(
    rows: TargetRows, places: Tensor, draft: Tensor | None, states: States, *, lenience: float
) -> Tensor:
    """m + (1 - sum m) norm(relu(target - l draft)) with m = min(draft, target / l)."""
    target = rows.processed()[places]
    if draft is None:
        return target
    kept = torch.minimum(draft, target / lenience)
    residual = (target - lenience * draft).clamp_(min=0.0)
    total = residual.sum(1, keepdim=True)
    rest = torch.where(total > 0, residual / total.clamp(min=torch.finfo(total.dtype).tiny), target)
    return kept + (1 - kept.sum(1, keepdim=True)).clamp(min=0.0) * rest


RULE = ListedRule(INFO, lenient, at_zero, law=law)

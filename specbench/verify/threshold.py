"""Threshold acceptance as in SGLang's tree verification, on a chain: draft laws are not used.

A draft is kept when it is likely enough by itself, or when one coin falls within its target
probability blown up by 1/acc. At 1 and 1 this is membership of one draw from the target, which is
lossless; anything lower is not.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.core.parameter import Parameter
from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import (
    BONUS,
    Acceptance,
    Lossless,
    RuleInfo,
    States,
    Uniforms,
)
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import draw
from specbench.decoding.tree import TokenTree, Trials
from specbench.verify.chain import accepted_prefix
from specbench.verify.listed import ListedRule

INFO = RuleInfo(
    name="threshold",
    source="SGLang, tree_speculative_sampling_target_only, chain of single candidates",
    lossless=Lossless.LOSSY,
    needs="processed",
    laws=("one_hot", "dense"),
    tree=False,
    temperature_zero="argmax match",
    exact_at={"single": 1, "acc": 1},
    parameters={
        "single": Parameter("keep a draft of at least this target probability", 1.0, 0, 1, True),
        "acc": Parameter("divisor of the target probability in the coin's test", 0.9, 0, 1, True),
    },
)


def threshold(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
    *,
    single: float,
    acc: float,
) -> tuple[Acceptance, States]:
    """Accept x iff u < target(x) / acc or target(x) >= single; else draw from the target without x.

    With one candidate the output law is out(x) = min(1, target(x) / acc), or 1 where
    target(x) >= single, and the other tokens share the rest in proportion to the target.
    """
    target = rows.token_probs(tree)
    passed = (uniforms.accept * acc < target) | ((target >= single) & (target > 0))
    path, count, kind = accepted_prefix(tree, passed)
    next_row = rows.at(count)
    bonus = kind == BONUS
    weights = next_row
    if tree.width:
        failed = count.clamp(max=tree.width - 1)[:, None]
        token = tree.ids.gather(1, failed)
        # Ids that name no token have nothing to remove.
        named = (token >= 0) & (token < next_row.shape[1])
        without = next_row.scatter(1, torch.where(named, token, 0), 0.0)
        usable = ~bonus & named.squeeze(1) & (without.sum(1) > 0)
        weights = torch.where(usable[:, None], without, next_row)
    next_token = draw(weights, torch.where(bonus, uniforms.bonus, uniforms.residual))
    return Acceptance(path, count, next_token, kind), states


def law(
    rows: TargetRows,
    places: Tensor,
    draft: Tensor | None,
    states: States,
    *,
    single: float,
    acc: float,
) -> Tensor:
    """Mean over x drawn from the draft of the law that one candidate x has.

    x is kept with probability a(x); a rejected x leaves target(y) / (1 - target(x)) to every other
    y, so out(y) = draft(y) a(y) + target(y) (S - s(y)) with s(x) = draft(x) (1 - a(x)) /
    (1 - target(x)) and S = sum s.
    """
    target = rows.processed()[places]
    if draft is None:
        return target
    kept = (target / acc).clamp(max=1.0)
    kept = torch.where((target >= single) & (target > 0), 1.0, kept)
    missed = draft * (1 - kept)
    room = (1 - target).clamp(min=torch.finfo(target.dtype).eps)
    share = torch.where(missed > 0, missed / room, 0.0)
    return draft * kept + target * (share.sum(1, keepdim=True) - share)


RULE = ListedRule(INFO, threshold, law=law)

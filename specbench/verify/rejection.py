"""Exact rejection sampling (Leviathan et al. 2211.17192, algorithm 1; Chen et al. 2302.01318)."""

from __future__ import annotations

import torch

from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import BONUS, Acceptance, Lossless, RuleInfo, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import draw
from specbench.decoding.tree import TokenTree, Trials
from specbench.verify.chain import accepted_prefix
from specbench.verify.temperature import TemperedRule

INFO = RuleInfo(
    name="rejection",
    source="Leviathan et al. 2023, 2211.17192, algorithm 1; Chen et al. 2023, 2302.01318",
    lossless=Lossless.PROVEN,
    needs="processed",
    laws=("one_hot", "dense"),
    tree=False,
    temperature_zero="argmax match",
)


def rejection(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    state: object,
    uniforms: Uniforms,
) -> tuple[Acceptance, object]:
    """Accept x with probability min(1, target(x)/draft(x)); else draw from relu(target - draft).

    The test is ``u * draft < target`` with u in [0, 1): a token of target probability 0 is never
    accepted, and equal rows always accept. An empty residual, which exact arithmetic cannot reach,
    falls back to the target row.
    """
    target = rows.token_probs(tree.ids)
    draft = laws.token_probs(tree.ids, trials.law)
    passed = uniforms.accept * draft < target
    path, count, kind = accepted_prefix(tree, passed)

    next_row = rows.at(count)
    bonus = kind == BONUS
    weights = next_row
    if tree.width:
        failed = count.clamp(max=tree.width - 1)[:, None]
        token = tree.ids.gather(1, failed).squeeze(1)
        law = trials.law.gather(1, failed).squeeze(1)
        residual = laws.subtract_from(next_row, law, token)
        # A hole carries no draft law, and an empty residual no mass: both draw from the target.
        usable = ~bonus & (token >= 0) & (residual.sum(1) > 0)
        weights = torch.where(usable[:, None], residual, next_row)
    next_token = draw(weights, torch.where(bonus, uniforms.bonus, uniforms.residual))
    return Acceptance(path, count, next_token, kind), state


RULE = TemperedRule(INFO, rejection)

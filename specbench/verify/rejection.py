"""Exact rejection sampling (Leviathan et al. 2211.17192, algorithm 1; Chen et al. 2302.01318)."""

from __future__ import annotations

import torch

from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import BONUS, Acceptance, Lossless, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import draw
from specbench.decoding.tree import TokenTree, Trials
from specbench.verify.chain import accepted_prefix, drafted
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
    states: States,
    uniforms: Uniforms,
) -> tuple[Acceptance, States]:
    """Accept x with probability min(1, target(x)/draft(x)); else draw from relu(target - draft).

    The test is ``u * draft < target`` with u in [0, 1): a token of target probability 0 is never
    accepted, and equal rows always accept. An id that the draft law cannot have given (a hole, an
    id out of range, probability 0) is rejected and replaced by a draw from the target; so is an
    empty residual, which exact arithmetic cannot reach.
    """
    target = rows.token_probs(tree.ids)
    ids, draft = drafted(tree, trials, rows, laws)
    passed = (draft > 0) & (uniforms.accept * draft < target)
    path, count, kind = accepted_prefix(tree, passed)

    next_row = rows.at(count)
    bonus = kind == BONUS
    weights = next_row
    if tree.width:
        failed = count.clamp(max=tree.width - 1)[:, None]
        token = ids.gather(1, failed).squeeze(1)
        law = trials.law.gather(1, failed).squeeze(1)
        residual = laws.subtract_from(next_row, law, token)
        drawn = draft.gather(1, failed).squeeze(1) > 0
        usable = ~bonus & drawn & (residual.sum(1) > 0)
        weights = torch.where(usable[:, None], residual, next_row)
    next_token = draw(weights, torch.where(bonus, uniforms.bonus, uniforms.residual))
    return Acceptance(path, count, next_token, kind), states


RULE = TemperedRule(INFO, rejection)

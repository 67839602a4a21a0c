"""The ratio test that exact rejection sampling and lenience share."""

from __future__ import annotations

import torch

from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import BONUS, Acceptance, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import draw
from specbench.decoding.tree import TokenTree, Trials
from specbench.verify.chain import accepted_prefix, drafted


def ratio_test(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    uniforms: Uniforms,
    lenience: float,
) -> Acceptance:
    """Accept x with probability min(1, target / (l draft)); else draw from relu(target - l draft).

    The test is ``u * l * draft < target`` with u in [0, 1): a token of target probability 0 is
    never accepted, and with l = 1 equal rows always accept. An id that the draft law cannot have
    given is rejected and replaced by a draw from the target; so is an empty residual, which exact
    arithmetic cannot reach.
    """
    target = rows.token_probs(tree)
    ids, draft = drafted(tree, trials, rows, laws)
    passed = (draft > 0) & (uniforms.accept * lenience * draft < target)
    path, count, kind = accepted_prefix(tree, passed)

    next_row = rows.at(count)
    bonus = kind == BONUS
    weights = next_row
    if tree.width:
        failed = count.clamp(max=tree.width - 1)[:, None]
        token = ids.gather(1, failed).squeeze(1)
        law = trials.law.gather(1, failed).squeeze(1)
        residual = laws.subtract_from(next_row, law, token, lenience)
        drawn = draft.gather(1, failed).squeeze(1) > 0
        usable = ~bonus & drawn & (residual.sum(1) > 0)
        weights = torch.where(usable[:, None], residual, next_row)
    next_token = draw(weights, torch.where(bonus, uniforms.bonus, uniforms.residual))
    return Acceptance(path, count, next_token, kind)

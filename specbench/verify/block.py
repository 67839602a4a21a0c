"""Block verification: the draft is judged as a whole, which accepts at least as many tokens.

Sun et al. 2403.10444 (ICLR 2025), algorithm 2. Every position is examined even behind a failed one,
so a loop that stops at the first rejection would be another rule.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import (
    Acceptance,
    Lossless,
    RuleInfo,
    States,
    Uniforms,
)
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import draw
from specbench.decoding.tree import TokenTree, Trials
from specbench.verify.chain import drafted, prefix
from specbench.verify.listed import ListedRule

INFO = RuleInfo(
    name="block",
    source="Sun et al. 2025, 2403.10444, algorithm 2",
    lossless=Lossless.PROVEN,
    needs="processed",
    laws=("one_hot", "dense"),
    tree=False,
    temperature_zero="argmax match",
    device_only=True,
)


def block(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
) -> tuple[Acceptance, States]:
    """Accept the longest prefix whose own test passes; ``u < h`` with u in [0, 1).

    p_0 = 1, p_i = min(1, p_{i-1} target/draft), R_i = sum relu(p_i target - draft) at the position
    behind token i, h_i = R_i / (R_i + 1 - p_i), and h = p at the end of the draft. A hole ends the
    draft, and the token behind it is the target's.
    """
    ids, draft = drafted(tree, trials, rows, laws)
    weight = _weights(rows.token_probs(tree).double(), draft.double())
    length = (draft > 0).long().cumprod(1).sum(1)
    count = torch.zeros_like(length)
    for i in range(1, tree.width + 1):
        p = weight[:, i]
        chance = torch.where(length == i, p, _continue(ids, trials, rows, laws, p, i))
        passed = (i <= length) & (uniforms.accept[:, i - 1] < chance)
        count = torch.where(passed, i, count)

    next_row = rows.at(count)
    whole = count == length
    weights = next_row
    if tree.width:
        place = count.clamp(max=tree.width - 1)[:, None]
        scaled = weight.gather(1, count[:, None]).to(next_row.dtype) * next_row
        residual = laws.subtract_from(
            scaled, trials.law.gather(1, place).squeeze(1), ids.gather(1, place).squeeze(1)
        )
        usable = ~whole & (residual.sum(1) > 0)
        weights = torch.where(usable[:, None], residual, next_row)
    path, kind = prefix(tree, count)
    next_token = draw(weights, torch.where(whole, uniforms.bonus, uniforms.residual))
    return Acceptance(path, count, next_token, kind), states


def _weights(target: Tensor, draft: Tensor) -> Tensor:
    """p_0 .. p_N [B, N + 1] from both probabilities of every drafted token [B, N]."""
    ratio = torch.where(draft > 0, target / draft.clamp(min=torch.finfo(draft.dtype).tiny), 0.0)
    weight = [torch.ones_like(target.sum(1))]
    for step in ratio.unbind(1):
        weight.append((weight[-1] * step).clamp(max=1.0))
    return torch.stack(weight, 1)


def _continue(
    ids: Tensor, trials: Trials, rows: TargetRows, laws: DraftLaws, p: Tensor, i: int
) -> Tensor:
    """h_i float64 [B] for a prefix of i tokens that is not the whole draft."""
    if i == ids.shape[1]:
        return torch.zeros_like(p)
    row = rows.at(torch.full((len(p),), i, device=p.device))
    rest = laws.subtract_from(p.to(row.dtype)[:, None] * row, trials.law[:, i], ids[:, i])
    mass = rest.sum(1, dtype=torch.float64)
    room = mass + 1 - p
    # Both vanish only where target and draft agree from here on: then the prefix passes for sure.
    return torch.where(room > 0, mass / room.clamp(min=torch.finfo(room.dtype).tiny), 1.0)


RULE = ListedRule(INFO, block)

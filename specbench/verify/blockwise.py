"""Blockwise acceptance (Stern, Shazeer and Uszkoreit 2018, 1811.03115, sections 4 and 5), greedy.

``top_k`` = 1 and ``minimum`` = 0 is exact greedy matching. A larger ``top_k`` keeps drafts among
the target's k first choices (section 5.1); ``minimum`` keeps that many drafts whatever the target
says (section 5.3).
"""

from __future__ import annotations

import torch

from specbench.core.parameter import Parameter
from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Acceptance, Lossless, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TokenTree, Trials
from specbench.verify.chain import accepted_prefix
from specbench.verify.listed import ListedRule

INFO = RuleInfo(
    name="blockwise",
    source="Stern et al. 2018, 1811.03115, sections 4, 5.1 and 5.3",
    lossless=Lossless.LOSSY,
    needs="raw",
    laws=("one_hot", "dense"),
    tree=False,
    temperature_zero="itself; refused at T > 0, where its output would be greedy",
    sampled=False,
    exact_at={"top_k": 1, "minimum": 0},
    parameters={
        "top_k": Parameter("keep drafts among the target's k first choices", 2, 1, 1e6, whole=True),
        "minimum": Parameter("drafts kept whatever the target says", 0, 0, 1e6, whole=True),
    },
    device_only=True,
)


def blockwise(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
    *,
    top_k: int,
    minimum: int,
) -> tuple[Acceptance, States]:
    """Accept the longest prefix of drafts that rank among the first ``top_k``; then the argmax."""
    logits = rows.adjusted
    inside = (tree.ids >= 0) & (tree.ids < logits.shape[1])
    before = rows.before(tree)
    own = rows.pick(logits, tree)
    least = logits.topk(min(top_k, logits.shape[1]), dim=1).values[:, -1]
    forced = torch.arange(tree.width, device=own.device) < minimum
    passed = inside & ((own >= least[before]) | forced)
    if top_k == 1:
        # The argmax, not its equals: ties go to the lowest id, as everywhere.
        passed = inside & ((tree.ids == rows.argmax()[:, :-1]) | forced)
    path, count, kind = accepted_prefix(tree, passed)
    next_token = rows.argmax().gather(1, count[:, None]).squeeze(1)
    return Acceptance(path, count, next_token, kind), states


RULE = ListedRule(INFO, None, blockwise)

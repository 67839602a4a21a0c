"""Typical acceptance (Medusa): keep a draft whose target probability exceeds an entropy threshold.

Cai et al. 2401.10774, section 2.3.1 and the released code. The token after the accepted drafts is
the target's argmax, also above temperature 0; the output is not distributed as the target's.
"""

from __future__ import annotations

import torch

from specbench.core.parameter import Parameter
from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Acceptance, Lossless, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TokenTree, Trials
from specbench.verify.chain import accepted_prefix
from specbench.verify.temperature import TemperedRule

_INSIDE_LOG = 1e-5
"""Added to probabilities inside the entropy's logarithm, as in the released code."""

INFO = RuleInfo(
    name="typical",
    source="Cai et al. 2024, 2401.10774, section 2.3.1 (Medusa), released code",
    lossless=Lossless.LOSSY,
    needs="processed",
    laws=("one_hot", "dense"),
    tree=False,
    temperature_zero="argmax match",
    parameters={
        "epsilon": Parameter("hard threshold on the target probability", 0.09, 0, 1, True),
        "delta": Parameter("factor of exp(-entropy) in the soft threshold", 0.3, 0, 1e9, True),
    },
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
    """Accept x iff target(x) > min(epsilon, delta * exp(-entropy)); emit the argmax after them."""
    target = rows.processed()
    entropy = -(target * (target + _INSIDE_LOG).log()).sum(1)
    threshold = (delta * torch.exp(-entropy)).clamp(max=epsilon)[rows.index[:, :-1]]
    path, count, kind = accepted_prefix(tree, rows.token_probs(tree.ids) > threshold)
    next_token = rows.argmax().gather(1, count[:, None]).squeeze(1)
    return Acceptance(path, count, next_token, kind), states


RULE = TemperedRule(INFO, typical)

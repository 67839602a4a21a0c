"""Losses between the target's law and a draft's, per position.

Notation: p is the target's law under its whole vocabulary, restricted to the tokens that the draft
can propose; q the draft's. m is p's mass there. A position whose mass lies outside the draft's
vocabulary pulls as little as it has inside: nothing drafted there could be accepted. Shapes: M
rows, Vd tokens; every function takes ``target`` (``rows.TargetProbs`` of M rows) and ``logits``
[M, Vd], and returns [M].
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from specbench.train.losses.rows import TargetProbs

Loss = Callable[[TargetProbs, Tensor], Tensor]


def forward_kl(target: TargetProbs, logits: Tensor) -> Tensor:
    """Cross-entropy of q under p, sum p (-log q): KL(p || q) up to what does not depend on q.

    Hinton et al. 2015, 1503.02531, section 2; DistillSpec (Zhou et al. 2310.08461), section 3;
    EAGLE-3 (Li et al. 2503.01840), section 3.
    """
    log_sum = logits.logsumexp(1)
    return target.mass * log_sum - (target.probs * logits).sum(1)


def token_cross_entropy(target: TargetProbs, logits: Tensor) -> Tensor:
    """-log q of the token that came next; 0 where the draft cannot say it.

    Medusa (Cai et al. 2401.10774), section 2.2; DeepSeek-V3 (2412.19437), section 2.2.
    """
    found = functional.cross_entropy(logits, target.token.clamp(min=0), reduction="none")
    return found * (target.token >= 0)


def reverse_kl(target: TargetProbs, logits: Tensor) -> Tensor:
    """m KL(q || p / m): seeks the target's modes (DistillSpec, section 3; Gu et al. 2306.08543)."""
    log_draft = logits.log_softmax(1)
    log_target = _log(_inside(target))
    return target.mass * (log_draft.exp() * (log_draft - log_target)).sum(1)


def jensen_shannon(target: TargetProbs, logits: Tensor, share: float = 0.5) -> Tensor:
    """m (beta KL(p || mix) + (1 - beta) KL(q || mix)), mix = beta p + (1 - beta) q, p / m for p.

    Agarwal et al. 2306.13649 (GKD), equation 3; DistillSpec, section 3. ``share`` is beta.
    """
    log_draft = logits.log_softmax(1)
    draft, inside = log_draft.exp(), _inside(target)
    log_mix = _log(share * inside + (1 - share) * draft)
    forward = (inside * (_log(inside) - log_mix)).sum(1)
    backward = (draft * (log_draft - log_mix)).sum(1)
    return target.mass * (share * forward + (1 - share) * backward)


def total_variation(target: TargetProbs, logits: Tensor) -> Tensor:
    """1 - sum min(p, q), the chance that rejection sampling refuses a draft (DistillSpec, eq. 5).

    Leviathan et al. 2211.17192, corollary 3.6: acceptance is one minus the total variation.
    """
    return 1 - acceptance(target, logits)


def negative_log_acceptance(target: TargetProbs, logits: Tensor) -> Tensor:
    """-m log (sum min(p, q) / m): the logarithm keeps gradients where acceptance is small.

    2602.23881 has it for whole vocabularies, where m is 1.
    """
    mass = target.mass
    share = acceptance(target, logits) / mass.clamp(min=torch.finfo(mass.dtype).tiny)
    return -mass * _log(share)


def acceptance(target: TargetProbs, logits: Tensor) -> Tensor:
    """sum min(p, q), the chance that a token drawn from the draft is accepted (2211.17192)."""
    return torch.minimum(target.probs, logits.softmax(1)).sum(1)


def _inside(target: TargetProbs) -> Tensor:
    """p / m; 0 where nothing is inside."""
    return target.probs / target.mass.clamp(min=torch.finfo(target.mass.dtype).tiny)[:, None]


def _log(values: Tensor) -> Tensor:
    """Logarithm with a floor, so that what is 0 on both sides adds 0 and has a gradient."""
    return values.clamp(min=torch.finfo(values.dtype).tiny).log()


LOSSES: dict[str, Loss] = {
    "forward_kl": forward_kl,
    "token_cross_entropy": token_cross_entropy,
    "reverse_kl": reverse_kl,
    "jensen_shannon": jensen_shannon,
    "total_variation": total_variation,
    "negative_log_acceptance": negative_log_acceptance,
}
"""Name in a recipe -> loss."""

"""How far two sets of evidence about the same tokens are apart: numeric noise, or another model."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, stdev

from specbench.core.trace import Evidence


@dataclass(frozen=True, slots=True)
class Agreement:
    """A run's own evidence against a reference's.

    Log-probabilities are natural and follow the request's sampling settings; they exist above
    temperature 0. None where there is nothing to take a number from.

    Attributes:
        tokens: tokens with a log-probability on both sides; the next four are over these.
        mean, largest: absolute difference of the log-probabilities, nats.
        kl: mean of run minus reference, nats per token. Tokens drawn from the run's target make it
            an unbiased estimate of KL(run's target, reference); noise may turn it negative. None
            where a rule drew from something else.
        kl_error: standard error of ``kl``. Given the tokens before it, a token's deviation from
            its own mean is a martingale difference, so deviations add up like independent ones.
        outside: further tokens that the run's target could emit and the reference could not, whose
            KL would be infinite; numeric noise does this at the border of top-p, top-k and min-p.
        largest_margin: largest absolute difference of the top-2 margin at temperature 0, logits.
    """

    tokens: int
    mean: float | None
    largest: float | None
    kl: float | None
    kl_error: float | None
    outside: int
    largest_margin: float | None


def agreement(pairs: Iterable[tuple[Evidence, Evidence]], from_target: bool) -> Agreement:
    """Compare the run's evidence (first) with the reference's (second), output by output.

    Args:
        pairs: per output; the reference's evidence has every position.
        from_target: whether tokens were drawn from the run's target, so that ``kl`` means
            something.
    """
    differences: list[float] = []
    margins: list[float] = []
    outside = 0
    for own, reference in pairs:
        rows = zip(own.position, own.log_target, own.margin, strict=True)
        for position, log_target, margin in rows:
            other, other_margin = reference.log_target[position], reference.margin[position]
            if log_target is not None:
                if other is None:
                    outside += 1
                else:
                    differences.append(log_target - other)
            if margin is not None and other_margin is not None:
                margins.append(abs(margin - other_margin))
    sizes = [abs(difference) for difference in differences]
    count = len(differences)
    return Agreement(
        tokens=count,
        mean=fmean(sizes) if sizes else None,
        largest=max(sizes, default=None),
        kl=fmean(differences) if differences and from_target else None,
        kl_error=stdev(differences) / math.sqrt(count) if count > 1 and from_target else None,
        outside=outside,
        largest_margin=max(margins, default=None),
    )

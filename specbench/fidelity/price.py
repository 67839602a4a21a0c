"""The price of a lossy rule: how far its output law is from the target's, per position.

For rules that judge token by token with one candidate the law at a position follows from the target
row and the draft row there, before the draft is drawn; total variation and KL divergence are then
computed, not sampled. For rules without such a law the engine repeats the pure rule at sampled
steps with fresh random numbers; that gives an estimate of the total variation alone, from below
(``decoding.sampled_price``). A lossless rule costs nothing, by proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specbench.core.quantity import Quantity, nothing, unavailable
from specbench.core.trace import Evidence, Trace
from specbench.stats.bootstrap import total_ratio


@dataclass(frozen=True, slots=True)
class Price:
    """What an arm's rule costs per token, at temperature > 0.

    Attributes:
        tv, kl: mean total variation and KL divergence (nats, rule against target) per position,
            with an interval over prompts.
        tv_worst, kl_worst: largest of any position.
        entropy_shift: mean entropy of the rule's law minus the target's, nats; negative: sharper.
        exact: whether computed from the rows; False where estimated from below.
    """

    tv: Quantity
    tv_worst: Quantity
    kl: Quantity
    kl_worst: Quantity
    entropy_shift: Quantity
    exact: bool

    def quantities(self) -> dict[str, Quantity]:
        """Statistic -> quantity, as table rows."""
        return {
            "tv": self.tv,
            "tv_worst": self.tv_worst,
            "kl": self.kl,
            "kl_worst": self.kl_worst,
            "entropy_shift": self.entropy_shift,
        }


def free() -> Price:
    """The price of a lossless rule: zero, by proof."""
    zero = Quantity(0.0, "1", method="proven")
    nats = Quantity(0.0, "nats", method="proven")
    return Price(zero, zero, nats, nats, nats, exact=True)


def unknown(reason: str) -> Price:
    """No price, and why."""
    one, nats = unavailable(reason, "1"), unavailable(reason, "nats")
    return Price(one, one, nats, nats, nats, exact=True)


def price(traces: Sequence[Trace], *, seed: int) -> Price:
    """The price from the records of one arm at one temperature.

    Positions count where the rule emitted the token; the prefill's token is not the rule's.

    Args:
        traces: finished requests; a prompt's turns and repeats are resampled together.
        seed: of the bootstrap.
    """
    records = [(f"{t.key.suite}/{t.key.item}", t.evidence) for t in traces if t.ok]
    held = [value for _, evidence in records for value in evidence.rule_tv if value is not None]
    if not held:
        return unknown("the rule's output law was not recorded")
    # Every computed position has a divergence. One estimated step, as drafts with siblings have,
    # makes the mean an estimate.
    exact = not any(
        tv is not None and kl is None
        for _, evidence in records
        for tv, kl in zip(evidence.rule_tv, evidence.rule_kl, strict=True)
    )
    tv = _mean(records, lambda e, i: e.rule_tv[i], "1", seed)
    worst = Quantity(max(held), "1", n=len(held))
    if not exact:
        reason = "the rule has no law of single tokens"
        nats = unavailable(reason, "nats")
        return Price(tv, unavailable(reason, "1"), nats, nats, nats, exact=False)
    kl = [value for _, evidence in records for value in evidence.rule_kl if value is not None]
    outside = sum(value == math.inf for value in kl)
    if outside:
        infinite = unavailable(
            f"infinite: the rule leaves the target's support at {outside} of {len(kl)} positions",
            "nats",
        )
        divergence = largest = infinite
    else:
        divergence = _mean(records, lambda e, i: e.rule_kl[i], "nats", seed)
        largest = Quantity(max(kl), "nats", n=len(kl))
    return Price(tv, worst, divergence, largest, _mean(records, _shift, "nats", seed), exact=True)


def _shift(evidence: Evidence, i: int) -> float | None:
    rule, target = evidence.rule_entropy[i], evidence.entropy[i]
    return None if rule is None or target is None else rule - target


def _mean(
    records: Sequence[tuple[str, Evidence]],
    value: Callable[[Evidence, int], float | None],
    unit: str,
    seed: int,
) -> Quantity:
    """Mean over positions with an interval over prompts."""
    sums: dict[str, float] = {}
    counts: dict[str, float] = {}
    for item, evidence in records:
        values = [v for i in range(len(evidence)) if (v := value(evidence, i)) is not None]
        sums[item] = sums.get(item, 0.0) + math.fsum(values)
        counts[item] = counts.get(item, 0.0) + len(values)
    if not any(counts.values()):
        return nothing("no position", unit)
    return total_ratio(list(sums.values()), list(counts.values()), seed=seed, unit=unit)

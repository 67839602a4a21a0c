"""How far apart are two arms on the same requests, and is that more than chance?"""

from __future__ import annotations

from collections.abc import Sequence

from specbench.core.quantity import Quantity, nothing
from specbench.stats.bootstrap import LEVEL, total_ratio
from specbench.stats.paired import mcnemar, permutation_mean_difference
from specbench.stats.proportion import wilson

NO_PAIR = "no request was answered by both arms"
_DECIDED_BELOW = 1.0 - LEVEL


def mean(values: Sequence[float], items: Sequence[str], *, seed: int, unit: str) -> Quantity:
    """Mean over answers, interval from a bootstrap over items; for 0/1 scores see ``share``."""
    sums, counts = _sums(items, values), _sums(items, [1.0] * len(values))
    return total_ratio(sums, counts, seed=seed, unit=unit, empty="no answer")


def share(values: Sequence[float], items: Sequence[str], *, seed: int) -> Quantity:
    """Share of right answers among 0/1 scores, unit 1.

    The interval is Wilson's where every item has one answer, or where all answers are alike and a
    bootstrap has nothing to resample; it then counts items, not answers.
    """
    n = len(set(items))
    if n == len(values):
        return wilson(round(sum(values)), n)
    if len(set(values)) == 1:
        return wilson(round(values[0]) * n, n)
    return mean(values, items, seed=seed, unit="1")


def mean_difference(
    arm: Sequence[float], plain: Sequence[float], items: Sequence[str], *, seed: int, unit: str
) -> Quantity:
    """Mean of arm - plain over answers, with a bootstrap over items.

    Args:
        arm, plain: scores of the same requests in the same order.
        items: the prompt of each, whose answers stay together.
    """
    if not items:
        return nothing(NO_PAIR, unit)
    gaps = [first - second for first, second in zip(arm, plain, strict=True)]
    if not any(gaps):
        return all_equal(len(set(items)), unit)
    return mean(gaps, items, seed=seed, unit=unit)


def share_difference(
    arm: Sequence[float], plain: Sequence[float], items: Sequence[str], *, seed: int
) -> Quantity:
    """``mean_difference`` of 0/1 scores.

    A bootstrap of equal items has width zero. Where no item differs, the interval is what n equal
    items still allow: less than 1 - 0.05^(1/n) of all items differ (the rule of three, exactly).
    """
    found = mean_difference(arm, plain, items, seed=seed, unit="1")
    if not found.known or any(first != second for first, second in zip(arm, plain, strict=True)):
        return found
    limit = 1.0 - (1.0 - LEVEL) ** (1.0 / found.n)
    method = f"no item of {found.n} differs: exact limit on the share that may"
    return Quantity(0.0, "1", -limit, limit, LEVEL, found.n, method)


def p_value(
    arm: Sequence[float], plain: Sequence[float], items: Sequence[str], *, seed: int
) -> Quantity:
    """Two-sided p-value of "the scores do not differ", unit 1.

    McNemar's exact test for 0/1 scores with one answer per item (case H11); otherwise the arms are
    swapped inside whole items, because the answers to one item are correlated.
    """
    if not items:
        return nothing(NO_PAIR, "1")
    n = len(set(items))
    if n == len(items) and {*arm, *plain} <= {0.0, 1.0}:
        better = sum(first > second for first, second in zip(arm, plain, strict=True))
        worse = sum(first < second for first, second in zip(arm, plain, strict=True))
        method = f"McNemar exact: right only in the arm {better}, only in plain {worse}"
        return Quantity(mcnemar(better, worse), "1", n=n, method=method)
    p = permutation_mean_difference(_sums(items, arm), _sums(items, plain), seed=seed)
    return Quantity(p, "1", n=n, method=f"arms swapped inside {n} items")


def in_words(difference: Quantity, p: Quantity) -> str:
    """The verdict as a reader should meet it: "no difference shown (p = 0.12, 30 items)"."""
    if not difference.known or not p.known:
        return str(difference.value if not difference.known else p.value)
    word = "no difference shown"
    if p.number() < _DECIDED_BELOW:
        word = "better" if difference.number() > 0 else "worse"
    return f"{word} (p = {p.number():.2g}, {p.n} items)"


def all_equal(n: int, unit: str) -> Quantity:
    """The difference of two arms that score equal on every item: 0, nothing to resample."""
    return Quantity(0.0, unit, n=n, method=f"no interval: the {n} items score equal in both arms")


def _sums(items: Sequence[str], values: Sequence[float]) -> list[float]:
    totals: dict[str, float] = {}
    for item, value in zip(items, values, strict=True):
        totals[item] = totals.get(item, 0.0) + value
    return list(totals.values())

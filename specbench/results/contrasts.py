"""What changes accept length between runs of a study: paired differences, and what they may claim.

Every arm is held against the first value's arm of its family, which is the same drafter under the
same rule, unquantised where there is such an arm. A difference is claimed where its interval
excludes 0 and its swap test, adjusted by Holm for all contrasts of a setting, is below 5 %. Nothing
is ranked otherwise (case H9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specbench.core.arm import PLAIN
from specbench.core.manifest import UNQUANTISED, ArmFactors, Manifest, canonical
from specbench.core.quantity import Quantity, nothing, unavailable
from specbench.core.trace import Trace
from specbench.metrics.acceptance import LENGTH
from specbench.metrics.totals import tally_of
from specbench.metrics.units import item_label, pairs, sums
from specbench.models.quant.settings import QUANT_OPTIONS
from specbench.stats.difference import difference_of_ratios
from specbench.stats.gap import detectable_gap
from specbench.stats.multiplicity import holm
from specbench.stats.paired import permutation_ratio
from specbench.stats.power import ALPHA

Columns = tuple[list[float], list[float], list[float], list[float]]
Cells = Mapping[tuple[str, str], Sequence[Trace]]
"""(value, arm) -> the requests of one setting."""


@dataclass(frozen=True, slots=True)
class Contrast:
    """One arm of one run against the arm that its family is held against.

    Attributes:
        target, draft: what the target and the draft were changed to; empty where they were not.
        base: the arm it is held against, of the first value.
        difference: of accept length, tokens per step; negative = it costs.
        p: two-sided, of swapping the two inside each prompt; 1 where nothing can be tested.
        detectable: the smallest difference that the setting could show.
    """

    target: str
    draft: str
    base: str
    difference: Quantity
    p: float
    detectable: Quantity


def step_totals(one: Sequence[Trace], other: Sequence[Trace]) -> Columns:
    """Committed tokens and steps of both, by prompt, over requests that both finished and count."""
    labels: list[str] = []
    columns: Columns = ([], [], [], [])
    for pair in pairs(one, other):
        tallies = [tally_of(pair.arm), tally_of(pair.plain)]
        counts = [
            count
            for tally in tallies
            if tally is not None
            for count in (tally.committed, tally.steps)
        ]
        known = [float(count) for count in counts if count is not None]
        if len(known) == len(columns):
            labels.append(item_label(pair.arm))
            for column, count in zip(columns, known, strict=True):
                column.append(count)
    first, second, third, fourth = (sums(labels, column) for column in columns)
    return first, second, third, fourth


def length_difference(one: Sequence[Trace], other: Sequence[Trace], seed: int) -> Quantity:
    """Accept length of one minus that of the other, paired by prompt; tokens per step."""
    columns = step_totals(one, other)
    if not columns[0]:
        if pairs(one, other):
            return unavailable("the engine does not tell steps and tokens per request", LENGTH)
        return nothing("no request was finished by both", LENGTH)
    return difference_of_ratios(*columns, seed=seed, unit=LENGTH)


def contrasts(manifests: Mapping[str, Manifest], key: str, cells: Cells) -> list[Contrast]:
    """Everything that one setting holds against something, in the order of values and arms.

    Args:
        manifests: of the runs, by value; the first value is held against.
        key: the study's key.
        cells: requests of a temperature and concurrency, over all suites.
    """
    values = list(manifests)
    first = manifests[values[0]]
    planned = [
        (value, arm, base)
        for members in families(first.arms)
        for base in [next((arm for arm in members if arm.quant == UNQUANTISED), members[0])]
        for value in values
        for arm in members
        if (value, arm.name) != (values[0], base.name)
    ]
    alpha = ALPHA / max(1, len(planned))
    found = []
    for value, arm, base in planned:
        one, other = cells.get((value, arm.name), ()), cells.get((values[0], base.name), ())
        found.append(
            Contrast(
                target=_target(key, value, manifests[value]) if value != values[0] else "",
                draft=arm.quant if arm.name != base.name else "",
                base=base.name,
                difference=length_difference(one, other, first.seed),
                p=_p(step_totals(one, other), first.seed),
                detectable=detectable_gap(
                    *step_totals(one, other), seed=first.seed, unit=LENGTH, alpha=alpha
                ),
            )
        )
    return found


def claimed(found: Sequence[Contrast]) -> list[bool]:
    """Which of the contrasts of one setting are differences."""
    adjusted = holm([contrast.p for contrast in found])
    return [
        p <= ALPHA and excludes_zero(contrast.difference)
        for p, contrast in zip(adjusted, found, strict=True)
    ]


def families(arms: Sequence[ArmFactors]) -> list[list[ArmFactors]]:
    """Arms that draft, those together that differ in the quantisation of their draft alone.

    An arm that differs from another in nothing but its name is a family of its own.
    """
    grouped: dict[str, list[ArmFactors]] = {}
    seen: set[tuple[str, str]] = set()
    for arm in arms:
        if arm.name != PLAIN:
            options = {n: v for n, v in arm.drafter_options.items() if n not in QUANT_OPTIONS}
            same = canonical([arm.drafter, arm.k, arm.rule_label, arm.engine, options])
            same += f" {arm.name}" if (same, arm.quant) in seen else ""
            seen.add((same, arm.quant))
            grouped.setdefault(same, []).append(arm)
    return list(grouped.values())


def _target(key: str, value: str, manifest: Manifest) -> str:
    return manifest.identity.quant if key == "target.quant" else f"{key} = {value}"


def _p(columns: Columns, seed: int) -> float:
    committed_a, steps_a, committed_b, steps_b = columns
    if not committed_a or (committed_a == committed_b and steps_a == steps_b):
        return 1.0
    return permutation_ratio(committed_a, steps_a, committed_b, steps_b, seed=seed)


def excludes_zero(difference: Quantity) -> bool:
    """Whether the whole interval is on one side of 0."""
    low, high = difference.low, difference.high
    return low is not None and high is not None and (low > 0 or high < 0)

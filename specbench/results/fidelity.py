"""Fidelity of every cell: is the output still the target's, and what does a lossy rule cost?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specbench.core.manifest import Manifest
from specbench.core.quantity import Quantity, nothing
from specbench.core.request import GREEDY_BELOW
from specbench.core.trace import Trace
from specbench.fidelity.columns import columns
from specbench.fidelity.definitions import FIDELITY, IDENTITY, PRICE
from specbench.fidelity.greedy import GreedySummary
from specbench.fidelity.price import Price, free, price, unknown
from specbench.fidelity.verdict import ALPHA, CellVerdict, Status, judge, not_tested
from specbench.results.cells import ALL_SUITES, Cell, CellRecords
from specbench.results.identity import greedy_identity, tolerance
from specbench.results.identity import quantities as identity_quantities

PROVEN, LOSSY, MEANINGLESS = "proven", "lossy", "meaningless"
UNFINISHED = "the run is unfinished: of an interrupted batch only short answers are recorded"


@dataclass(frozen=True, slots=True)
class CellFidelity:
    """What is known of one cell.

    Attributes:
        greedy: comparison with plain at temperature 0; None above it.
        verdict: of the token-level tests above temperature 0.
        price: of the acceptance rule above temperature 0.
    """

    greedy: GreedySummary | None
    verdict: CellVerdict
    price: Price

    def quantities(self) -> Mapping[str, Mapping[str, Quantity]]:
        """Metric -> statistic -> quantity, as table rows."""
        return {
            IDENTITY: identity_quantities(self.greedy),
            FIDELITY: _verdict_quantities(self.verdict),
            PRICE: self.price.quantities(),
        }


def measure_fidelity(
    manifest: Manifest,
    cells: Mapping[Cell, CellRecords],
    alpha: float = ALPHA,
    *,
    support_tolerance: float = 0.0,
    tie_tolerance: float | None = None,
    complete: bool = True,
) -> dict[Cell, CellFidelity]:
    """Fidelity of every cell that is not a category.

    Cells that pool all suites are one family of tests, those of single suites another; they share
    ``alpha``, the chance of any false alarm among the token-level tests of the run.

    Args:
        support_tolerance: see ``fidelity.support``; above 0 for evidence from other kernels.
        complete: whether every planned request is there; of a batch that was interrupted only the
            short answers are, which selects by the tokens under test.
        tie_tolerance: largest top-2 margin of a tie, in logits; the run's own where not given.
    """
    chosen = {cell: measured for cell, measured in cells.items() if not cell.category}
    verdicts: dict[Cell, CellVerdict] = {}
    families = [
        {c: m for c, m in chosen.items() if (c.suite == ALL_SUITES) is pooled}
        for pooled in (True, False)
    ]
    share = alpha / sum(bool(family) for family in families) if chosen else alpha
    for family in families:
        verdicts |= _verdicts(family, share, support_tolerance, complete)
    limit = tolerance(manifest) if tie_tolerance is None else tie_tolerance
    return {
        cell: CellFidelity(
            greedy_identity(cell, measured, limit),
            verdicts[cell],
            _price(manifest, cell, measured.traces, verdicts[cell]),
        )
        for cell, measured in chosen.items()
    }


def _verdicts(
    cells: Mapping[Cell, CellRecords], alpha: float, support_tolerance: float, complete: bool
) -> dict[Cell, CellVerdict]:
    found: dict[Cell, CellVerdict] = {}
    tested = {}
    for cell, measured in cells.items():
        if cell.temperature < GREEDY_BELOW:
            found[cell] = not_tested("temperature 0 is compared token by token")
            continue
        if cell.concurrency > 1 and not complete:
            found[cell] = not_tested(UNFINISHED)
            continue
        try:
            tested[cell] = columns(measured.traces)
        except ValueError as error:
            found[cell] = not_tested(f"the evidence is damaged: {error}")
    named = {str(index): cell for index, cell in enumerate(tested)}
    judged = judge(
        {name: tested[cell] for name, cell in named.items()},
        alpha,
        support_tolerance=support_tolerance,
    )
    return found | {cell: judged[name] for name, cell in named.items()}


def _price(manifest: Manifest, cell: Cell, traces: Sequence[Trace], verdict: CellVerdict) -> Price:
    arm = manifest.arm(cell.arm)
    if cell.temperature < GREEDY_BELOW:
        return unknown("a price is measured above temperature 0")
    if arm.lossless == MEANINGLESS:
        return unknown("acceptance is made up; the output says nothing")
    if arm.lossless == LOSSY:
        return price(traces, seed=manifest.seed)
    if arm.lossless != PROVEN:
        return unknown(f"the rule is {arm.lossless}, not proven, to keep the target's law")
    if verdict.status is Status.FAILED:
        # The proof is of the rule; here something around it does not keep its conditions.
        return unknown(f"rule {arm.rule} is proven, and yet this output is not the target's")
    return free()


def _verdict_quantities(verdict: CellVerdict) -> dict[str, Quantity]:
    names = ("p", "log10_e", "detectable", "outside")
    if verdict.p is None:
        return dict.fromkeys(names, nothing(verdict.reason, "1"))
    tests = {test.name: test for test in verdict.tests}
    wealth, outside = tests.get("eprocess"), tests.get("support")
    return {
        "p": Quantity(verdict.p, "1", n=verdict.n),
        "log10_e": Quantity(wealth.statistic / math.log(10), "1", n=wealth.n)
        if wealth
        else nothing("no usable token", "1"),
        "detectable": Quantity(verdict.detectable, "1", n=verdict.n)
        if verdict.detectable is not None
        else nothing("no test could have failed", "1"),
        "outside": Quantity(outside.statistic, "1", n=outside.n)
        if outside
        else nothing("no usable token", "1"),
    }

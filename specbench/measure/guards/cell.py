"""All guards of one cell, in the order in which a reader should meet them."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.core.trace import Trace
from specbench.measure.guards.caches import cache_guards
from specbench.measure.guards.counting import counting_guards
from specbench.measure.guards.drafts import draft_guards
from specbench.measure.guards.failures import failure_guards
from specbench.measure.guards.guard import Around, Cell, Guard
from specbench.measure.guards.order import order_guards
from specbench.measure.guards.outliers import outlier_guards
from specbench.measure.guards.plain import plain_guards
from specbench.measure.guards.sampling import sampling_guards
from specbench.measure.guards.settings import settings_guards
from specbench.measure.guards.speed import length_guards, speed_guards, table_guards
from specbench.measure.guards.state import state_guards
from specbench.measure.guards.streaming import streaming_guards
from specbench.measure.guards.weights import weight_guards
from specbench.metrics.units import pairs

_NOTHING_ELSE = Around()


def cell_guards(
    arm: Sequence[Trace],
    plain: Sequence[Trace],
    table: Cell,
    *,
    draft_is_target: bool = False,
    around: Around = _NOTHING_ELSE,
) -> list[Guard]:
    """All guards of one cell.

    Args:
        arm, plain: the traces that ``table`` was measured from.
        table: the result of ``metrics.table.measure_cell``.
        draft_is_target: the draft has the target's weights, so that full acceptance is expected.
        around: what the run says beside the traces.
    """
    joined = [pair for pair in pairs(arm, plain) if pair.arm.arm != pair.plain.arm]
    return [
        *failure_guards(arm),
        *plain_guards(plain, around),
        *streaming_guards(arm, around),
        *draft_guards(arm, around, draft_is_target),
        *speed_guards(arm, table),
        *length_guards(joined),
        *order_guards(arm, plain, joined, around),
        *cache_guards(arm, joined, around),
        *outlier_guards(arm),
        *sampling_guards(arm, around),
        *settings_guards(arm, joined, around),
        *counting_guards(arm, around),
        *state_guards(around),
        *weight_guards(around),
        *table_guards(table),
    ]

"""One row of ``table.csv``, long form: a metric of a suite, temperature, concurrency and arm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from specbench.core.quantity import Missing, Quantity


@dataclass(frozen=True, slots=True)
class Row:
    """The columns of ``table.csv``, in order.

    ``value`` is None where there is none, and ``reason`` then says why; zero is a value.
    ``quant`` is what the target was quantised to and, behind a slash, the draft where it was.
    ``guards`` lists the reasons to distrust the cell, separated by spaces; ``method`` says how
    the interval was made and, where steps were not seen, what the number rests on.
    """

    run: str
    identity: str
    arm: str
    drafter: str
    k_max: int
    tree: str
    rule: str
    draft_law: str
    lossless: str
    engine: str
    dtype: str
    quant: str
    suite: str
    split: str
    category: str
    temperature: float
    concurrency: int
    metric: str = ""
    stat: str = ""
    definition: str = ""
    unit: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    level: float | None = None
    n: int = 0
    guards: str = ""
    reason: str = ""
    method: str = ""

    def measured(self, metric: str, stat: str, definition: str, quantity: Quantity) -> Row:
        """This cell's row for one quantity."""
        missing = quantity.value if isinstance(quantity.value, Missing) else None
        return replace(
            self,
            metric=metric,
            stat=stat,
            definition=definition,
            unit=quantity.unit,
            value=None if isinstance(quantity.value, Missing) else quantity.value,
            low=quantity.low,
            high=quantity.high,
            level=quantity.level,
            n=quantity.n,
            reason=str(missing) if missing else "",
            method=quantity.method,
        )

    def cells(self) -> list[str]:
        """The row as CSV cells: unrounded numbers, empty where there is no value."""
        return [_cell(getattr(self, name)) for name in COLUMNS]


COLUMNS = tuple(field.name for field in fields(Row))

_INTEGERS = frozenset({"k_max", "concurrency", "n"})
_FLOATS = frozenset({"temperature", "value", "low", "high", "level"})


def parse_row(cells: Mapping[str, str]) -> Row:
    """The row behind CSV cells; raises ValueError or KeyError on a malformed row."""
    values: dict[str, object] = {}
    for name in COLUMNS:
        # Tables from before this column do not have it.
        text = cells.get(name, "") if name == "method" else cells[name]
        if name in _INTEGERS:
            values[name] = int(text)
        elif name in _FLOATS:
            values[name] = float(text) if text else None
        else:
            values[name] = text
    return Row(**values)  # type: ignore[arg-type]


def _cell(value: object) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)

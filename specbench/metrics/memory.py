"""Memory rows of a table."""

from __future__ import annotations

from dataclasses import fields

from specbench.core.arm import ArmMemory
from specbench.core.quantity import Quantity, unavailable


def memory(held: ArmMemory | None) -> dict[str, Quantity]:
    """One quantity in bytes per field of ``ArmMemory``; not available where it is None."""
    table: dict[str, Quantity] = {}
    for field in fields(ArmMemory):
        value = None if held is None else getattr(held, field.name)
        table[field.name] = (
            unavailable("the engine does not tell", "bytes")
            if value is None
            else Quantity(float(value), "bytes", n=1)
        )
    return table

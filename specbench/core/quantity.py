"""A number with its uncertainty, or the reason why there is none (unknown is not zero)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Absence(StrEnum):
    """Why a quantity has no value: two different states, neither of them zero."""

    NOTHING_TO_MEASURE = "nothing to measure"
    NOT_AVAILABLE = "not available"


@dataclass(frozen=True, slots=True)
class Missing:
    """The place of a value that does not exist, and why."""

    absence: Absence
    reason: str

    def __str__(self) -> str:
        return f"{self.absence}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Quantity:
    """One measured value.

    Attributes:
        value: the number, never rounded, or ``Missing``.
        unit: "ms", "tokens/step", "1", "x" ...
        low, high: interval bounds at ``level``; None where no interval was formed.
        level: coverage level of the interval, e.g. 0.95.
        n: number of independent units behind the value (prompts, blocks, starts).
        method: how the interval was made, e.g. "bootstrap-bca over item".
    """

    value: float | Missing
    unit: str
    low: float | None = None
    high: float | None = None
    level: float | None = None
    n: int = 0
    method: str = ""

    @property
    def known(self) -> bool:
        """Whether there is a value."""
        return not isinstance(self.value, Missing)

    def number(self) -> float:
        """The value; raises ValueError with the reason where there is none."""
        if isinstance(self.value, Missing):
            raise ValueError(str(self.value))
        return self.value


def nothing(reason: str, unit: str) -> Quantity:
    """A quantity for which this run holds nothing to measure."""
    return Quantity(Missing(Absence.NOTHING_TO_MEASURE, reason), unit)


def unavailable(reason: str, unit: str) -> Quantity:
    """A quantity that this engine cannot show."""
    return Quantity(Missing(Absence.NOT_AVAILABLE, reason), unit)

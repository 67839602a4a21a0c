"""What a part of the check reports."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from .timing import Timed


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value.

    Attributes:
        name, value, unit: what.
        how: it was measured, in words.
        aim: the largest (or with ``least`` smallest) value that was aimed at, or None.
        least: whether more is better.
        spread: low and high of the middle half of the repetitions, where there were any.
        n: repetitions.
    """

    name: str
    value: float
    unit: str
    how: str
    aim: float | None = None
    least: bool = False
    spread: tuple[float, float] | None = None
    n: int = 1

    @property
    def met(self) -> bool | None:
        """Whether the aim was reached; None without one."""
        if self.aim is None:
            return None
        return self.value >= self.aim if self.least else self.value <= self.aim

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self) | {"met": self.met}


@dataclass(slots=True)
class Report:
    """What a part found, and what it left out.

    Attributes:
        figures: in order.
        skipped: what was not measured, with the reason.
    """

    figures: list[Figure] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, value: float, unit: str, how: str, **more: Any) -> None:
        """A figure."""
        self.figures.append(Figure(name, value, unit, how, **more))

    def timed(self, name: str, time: Timed, how: str) -> None:
        """Milliseconds with their spread."""
        self.add(name, time.median, "ms", how, spread=(time.low, time.high), n=time.n)

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {"figures": [one.record() for one in self.figures], "skipped": dict(self.skipped)}

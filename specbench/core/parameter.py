"""A declared number that a rule takes: meaning, default and range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from specbench.errors import UsageError


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an acceptance rule.

    Attributes:
        meaning: one line for lists.
        default: value where none is given.
        low, high: smallest and largest value.
        open_low: whether ``low`` itself is excluded.
        whole: whether it must be a whole number.
    """

    meaning: str
    default: float
    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    whole: bool = False

    def __str__(self) -> str:
        return f"{self.meaning} ({self.default:g})"

    def check(self, name: str, value: object) -> float:
        """The value as a number; UsageError names parameter, value and range."""
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
        fits = (
            number is not None
            and self.low <= number <= self.high
            and not (self.open_low and number == self.low)
            and not (self.whole and number != int(number))
        )
        if number is None or not fits:
            kind = "whole number" if self.whole else "number"
            left = "(" if self.open_low else "["
            raise UsageError(
                f"{name} = {value!r} is out of range",
                f"a {kind} in {left}{self.low:g}, {self.high:g}]: {self.meaning}",
            )
        return int(number) if self.whole else float(number)


def checked(
    parameters: Mapping[str, Parameter], options: Mapping[str, object], where: str
) -> dict[str, float]:
    """Every parameter's value, given or default. UsageError for unknown names and bad values."""
    for name in options:
        if name not in parameters:
            known = ", ".join(parameters) or "none"
            raise UsageError(f"{where} has no parameter {name!r}", f"known: {known}")
    return {
        name: parameter.check(f"{where}: {name}", options.get(name, parameter.default))
        for name, parameter in parameters.items()
    }

"""A declared number that a rule takes: meaning, default and range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from specbench.errors import UsageError

Value = float | tuple[float, ...] | None


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an acceptance rule.

    Attributes:
        meaning: one line for lists.
        default: value where none is given; None is "not set".
        low, high: smallest and largest value.
        open_low: whether ``low`` itself is excluded.
        whole: whether it must be a whole number.
        many: whether it is a list of such numbers.
    """

    meaning: str
    default: float | None
    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    whole: bool = False
    many: bool = False

    def __str__(self) -> str:
        return f"{self.meaning} ({'not set' if self.default is None else f'{self.default:g}'})"

    def check(self, name: str, value: object) -> Value:
        """The value as a number or numbers; UsageError names parameter, value and range."""
        if value is None and self.default is None:
            return None
        if not self.many:
            return self._number(name, value, value)
        if not isinstance(value, list | tuple) or not value:
            self._refuse(name, value)
        return tuple(self._number(name, entry, value) for entry in value)

    def _number(self, name: str, value: object, given: object) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            self._refuse(name, given)
        fits = self.low <= value <= self.high and not (self.open_low and value == self.low)
        if not fits or (self.whole and value != int(value)):
            self._refuse(name, given)
        return int(value) if self.whole else float(value)

    def _refuse(self, name: str, value: object) -> NoReturn:
        kind = "whole number" if self.whole else "number"
        left = "(" if self.open_low else "["
        start = f"a list of {kind}s, each" if self.many else f"a {kind}"
        raise UsageError(
            f"{name} = {value!r} is out of range",
            f"{start} in {left}{self.low:g}, {self.high:g}]: {self.meaning}",
        )


def checked(
    parameters: Mapping[str, Parameter], options: Mapping[str, object], where: str
) -> dict[str, Value]:
    """Every parameter's value, given or default. UsageError for unknown names and bad values."""
    for name in options:
        if name not in parameters:
            known = ", ".join(parameters) or "none"
            raise UsageError(f"{where} has no parameter {name!r}", f"known: {known}")
    return {
        name: parameter.check(f"{where}: {name}", options.get(name, parameter.default))
        for name, parameter in parameters.items()
    }

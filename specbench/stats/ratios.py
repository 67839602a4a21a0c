"""Statistics that are made of ratios of totals: what is resampled, compared and bounded.

Their totals decide them alone, and so a resample is worth no more than the totals of each column in
it (``stats.resamples``). Their derivatives are known in closed form, from which the spread of a
resample follows (``stats.studentized``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Form(StrEnum):
    """How ratios make one number."""

    PRODUCT = "product"
    """Those of sign 1 multiplied, over those of sign -1 multiplied."""
    LOG = "log"
    """The logarithm of that."""
    SUM = "sum"
    """All of them with their signs added up."""


@dataclass(frozen=True, slots=True)
class Ratios:
    """A statistic of columns: numerator and denominator of the first ratio, of the second ...

    Attributes:
        signs: of each ratio, 1 or -1; the first of a product is 1.
        form: how they make one number.
    """

    signs: tuple[int, ...]
    form: Form = Form.PRODUCT

    def __call__(self, *columns: Array, axis: int = -1) -> Any:
        """The statistic of columns of one entry per unit along ``axis``."""
        return self.at([column.sum(axis=axis) for column in columns])

    def at(self, totals: Sequence[Any] | Array) -> Any:
        """The statistic where the totals are these: numbers, or arrays of one shape."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = [totals[n] / totals[n + 1] for n in range(0, len(totals), 2)]
            if self.form is Form.SUM:
                return reduce(add, map(mul, self.signs, ratios))
            above, below = (
                [ratio for ratio, sign in zip(ratios, self.signs, strict=True) if sign == side]
                for side in (1, -1)
            )
            value = reduce(mul, above) / reduce(mul, below) if below else reduce(mul, above)
            return np.log(value) if self.form is Form.LOG else value

    def over(self, other: Ratios) -> Ratios:
        """This product over another one, of the columns of both."""
        return Ratios((*self.signs, *(-sign for sign in other.signs)))

    @property
    def log(self) -> Ratios:
        """The logarithm of this product."""
        return replace(self, form=Form.LOG)


QUOTIENT = Ratios((1,))
"""sum num / sum den, of what cannot be negative."""
MEAN = Ratios((1,), Form.SUM)
"""The same of what may be."""
RATIO_OF_RATIOS = QUOTIENT.over(QUOTIENT)
"""(sum num_a / sum den_a) / (sum num_b / sum den_b)."""
DIFFERENCE = Ratios((1, -1), Form.SUM)
"""sum num_a / sum den_a - sum num_b / sum den_b."""

"""By how much the evidence of a cell may be wrong, where rows are only known in part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specbench.fidelity.columns import Floats


@dataclass(frozen=True, slots=True)
class Doubts:
    """Largest errors of the tokens of one cell, arrays [n] in the order of ``columns``.

    See ``fidelity.top_rows.RowLaw`` for what each bounds. ``tail`` is the largest of the cell,
    ``unlisted`` counts emitted tokens that are not listed.
    """

    log: Floats
    entropy: Floats
    pit: Floats
    excess: Floats
    tail: float
    unlisted: int

    def __str__(self) -> str:
        known = self.log[np.isfinite(self.log)]
        text = f"log-probabilities of tokens known to {known.max(initial=0.0):.2g} nats at worst, "
        text += f"{known.mean() if len(known) else 0.0:.2g} on average"
        unbounded = len(self.log) - len(known)
        text += f" ({unbounded} have no bound)" if unbounded else ""
        text += f"; up to {self.tail:.2g} of the mass is not listed"
        return f"{text}, nor are {self.unlisted} of {len(self.log)} emitted tokens"

"""Fidelity watched while a run goes on: one e-process per arm and temperature.

Only at concurrency 1: above it requests finish in an order that depends on their tokens, and a
process fed in that order is not valid (``fidelity.columns``).
"""

from __future__ import annotations

import math

from specbench.core.trace import Trace
from specbench.fidelity.columns import columns
from specbench.fidelity.eprocess import EProcess

ALPHA = 1e-3
"""An arm is reported once its E reaches 1 / ``ALPHA``; valid however often one looks."""

Place = tuple[str, float]


class Watch:
    """Feed it every record as it comes; it speaks once per arm, when there is something to say."""

    def __init__(self) -> None:
        self._processes: dict[Place, EProcess] = {}
        self._reported: set[Place] = set()

    def update(self, trace: Trace) -> str:
        """Take one record; a sentence where its arm has just been found out, else nothing."""
        if trace.concurrency > 1:
            return ""
        try:
            found = columns([trace])
        except ValueError:
            return ""  # the summary names damaged evidence
        if not len(found):
            return ""
        place = (trace.arm, trace.key.temperature)
        process = self._processes.setdefault(place, EProcess())
        process.update(found)
        if place in self._reported or process.detected_at(ALPHA) is None:
            return ""
        self._reported.add(place)
        at = process.detected_at(ALPHA)
        return (
            f"arm {trace.arm}, temperature {trace.key.temperature:g}: the output is not the "
            f"target's (E reached {1 / ALPHA:.0f} at token {at})"
        )

    @property
    def largest(self) -> float:
        """Largest log10 E of any arm so far."""
        wealth = [process.max_log_e for process in self._processes.values()]
        return max(wealth, default=0.0) / math.log(10)

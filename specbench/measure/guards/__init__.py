"""Reasons to distrust a run: pure functions of its traces and quantities, one file per kind.

A guard does not stop anything. The cell is written, carries the guard's code, is not ranked, and
the reader learns what to do next.
"""

from specbench.measure.guards.cell import cell_guards
from specbench.measure.guards.concurrency import concurrency_guard
from specbench.measure.guards.guard import Around, Guard
from specbench.measure.guards.prompts import prompt_guards

__all__ = ["Around", "Guard", "cell_guards", "concurrency_guard", "prompt_guards"]

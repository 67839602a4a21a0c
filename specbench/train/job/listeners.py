"""Who hears of a training, and what a caller learns when a call ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from specbench.train.loop.checkpoint import Standing


@dataclass(frozen=True, slots=True)
class Listeners:
    """What a caller hears, and when it wants to stop.

    Attributes:
        note: a line for the reader.
        stage: what is being made, how much of it is there, how much there will be.
        moved: step, all steps, figures of the last one.
        validated: step, and figures of held-out answers by name.
        over: whether this call's time is up.
    """

    note: Callable[[str], None]
    stage: Callable[[str, int, int], None]
    moved: Callable[[int, int, Mapping[str, float]], None]
    validated: Callable[[int, Mapping[str, float]], None]
    over: Callable[[], bool]


SILENT = Listeners(
    lambda text: None,
    lambda name, done, total: None,
    lambda step, total, figures: None,
    lambda step, figures: None,
    lambda: False,
)
"""For the processes that do not speak; when time is up, the first one says."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where a call ended: how the loop stands, and whether what was trained is exported."""

    standing: Standing
    finished: bool

"""What a guard is, and what it may look at beside traces and quantities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from specbench.core.quantity import Quantity
from specbench.core.trace import Window

Cell = Mapping[str, Mapping[str, Quantity]]
"""Metric -> stat -> quantity, the result of ``metrics.table.measure_cell``."""


@dataclass(frozen=True, slots=True)
class Guard:
    """One reason: a stable code for files, what was seen, and what to do next."""

    code: str
    text: str
    next_step: str

    def __str__(self) -> str:
        return f"{self.code}: {self.text}; {self.next_step}"


@dataclass(frozen=True, slots=True)
class Around:
    """What a run says about a cell beside its traces; the defaults are an engine in this process.

    Attributes:
        k: the longest draft that was asked for; 0 = none, or nobody knows.
        served: whether a server decoded the cell, started here or attached.
        attached: whether that server was found running, so that nobody here restarts it.
        prefix_cache: ``off``, ``cold`` or ``warm``, as asked for.
        requested: sampling settings as they were sent, by our names.
        windows, plain_windows: what counters showed while the arm and while plain ran.
        probes: what the arm's server was found to do before measuring: ``seed`` and
            ``temperature`` (``honoured`` or ``ignored``) and ``certainty`` in words.
        stateful: whether the drafter carries state from one request to the next.
        random_weights: whether the target's weights were made up.
    """

    k: int = 0
    served: bool = False
    attached: bool = False
    prefix_cache: str = "off"
    requested: Mapping[str, object] = field(default_factory=dict)
    windows: Sequence[Window] = ()
    plain_windows: Sequence[Window] = ()
    probes: Mapping[str, object] = field(default_factory=dict)
    stateful: bool = False
    random_weights: bool = False

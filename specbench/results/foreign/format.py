"""What a reader of a foreign format is, and what it hands over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from specbench.results.definitions import DEFINITIONS
from specbench.results.foreign.document import Document
from specbench.results.foreign.imported import ImportedRow, Meaning, Refused

MILLISECONDS = "ms"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says of a file, because the file does not.

    Attributes:
        arm: name of its figures.
        suite: of its prompts; empty where nothing was said.
        k: longest draft.
        method: which loop of Spec-Bench wrote it.
    """

    arm: str
    suite: str = ""
    k: int | None = None
    method: str | None = None


@dataclass(slots=True)
class Reading:
    """What a reader found: its rows, what it refuses, conditions of the measurement, notes."""

    rows: list[ImportedRow] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    conditions: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    k: int | None = None

    def refuse(self, field: str, reason: str) -> None:
        """A figure that has no counterpart here."""
        self.refused.append(Refused(field, reason))

    def told(self, **facts: object) -> None:
        """Conditions that the file states; what it leaves out is left out."""
        self.conditions |= {
            name: f"{fact:g}" if isinstance(fact, float) else str(fact)
            for name, fact in facts.items()
            if fact is not None and fact != ""
        }


@dataclass(frozen=True, slots=True)
class Place:
    """Which arm, suite and category a row belongs to."""

    arm: str
    suite: str = ""
    category: str = ""


def row(
    place: Place,
    metric: str,
    value: float,
    n: int,
    counted: str,
    field: str,
    *,
    stat: str = "value",
    high: float | None = None,
) -> ImportedRow:
    """A row under the present definition of a metric.

    Args:
        value: the figure; where ``high`` is given and larger, its lower bound.
        high: its upper bound.
    """
    found = DEFINITIONS[metric]
    exact = high is None or high == value
    return ImportedRow(
        arm=place.arm,
        suite=place.suite,
        category=place.category,
        metric=metric,
        definition=found.label,
        stat=stat,
        value=value if exact else None,
        low=None if exact else value,
        high=None if exact else high,
        unit="1" if metric == "accept_pos" else found.unit,
        n=n,
        counted=counted,
        field=field,
    )


@dataclass(frozen=True, slots=True)
class Format:
    """A format of one tool.

    Attributes:
        name: for ``--format``.
        tool: that writes it.
        file: which of its files that is.
        source: what its meanings were read from.
        meanings: of all figures that are taken or refused.
        recognise: whether a document is of this format.
        read: its figures in our definitions; ResultError where the document contradicts itself.
    """

    name: str
    tool: str
    file: str
    source: str
    meanings: tuple[Meaning, ...]
    recognise: Callable[[Document], bool]
    read: Callable[[Document, Asked], Reading]

    def used(self, reading: Reading) -> Iterator[Meaning]:
        """Meanings of what a reading took or refused, in the order of the format."""
        named = {one.field for one in reading.rows} | {one.field for one in reading.refused}
        return (meaning for meaning in self.meanings if meaning.field in named)


STATISTICS: Mapping[str, str] = {"mean": "mean", "median": "p50"}
"""Words for statistics of latencies in foreign files -> ours; pNN is pNN in both."""

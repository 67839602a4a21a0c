"""The summary as data: one row per cell, one sentence, what to distrust. Reports only print it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter

from specbench.core.manifest import SCHEMA_VERSION, UNQUANTISED
from specbench.core.quantity import Missing, Quantity
from specbench.results.schema import read_document, strict_json
from specbench.results.store import RunFolder

DETECTED, UNSEEN = "differs", "not seen"
"""Words for a lossy arm: whether its difference from the target was detected."""
BROKEN = ("MISMATCH", "FAILED")
"""Beginnings of words for an output that is not the target's."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number with its interval, or None with the reason."""

    value: float | None
    unit: str
    low: float | None = None
    high: float | None = None
    n: int = 0
    reason: str = ""


def figure_of(quantity: Quantity) -> Figure:
    """A quantity as a summary holds it."""
    if isinstance(quantity.value, Missing):
        return Figure(None, quantity.unit, reason=str(quantity.value))
    return Figure(quantity.value, quantity.unit, quantity.low, quantity.high, quantity.n)


@dataclass(frozen=True, slots=True)
class AnchorCheck:
    """A published value beside what this run measured.

    Attributes:
        position: of accept_pos alone.
        tolerance: share of the published value.
        reproduced: None where nothing was measured.
        off: measured / published - 1.
        differs: settings of this run that are not those of the publication.
        causes: what else may be behind a difference; none where there is none.
    """

    arm: str
    metric: str
    position: int | None
    suite: str
    temperature: float
    concurrency: int
    published: float
    tolerance: float
    source: str
    measured: Figure
    reproduced: bool | None
    off: float | None
    differs: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """One cell.

    Attributes:
        identity: greedy verdict at temperature 0, verdict of the token-level tests above it, in a
            word; empty where there is none.
        identity_detail: items that differ at temperature 0.
        fidelity: the verdict with n, p and what it would have caught.
        price_exact: whether the price is computed; False where it is estimated from below.
        quality: metric -> ``value``, ``plain``, ``difference`` and ``p``; scored metrics alone.
    """

    suite: str
    temperature: float
    concurrency: int
    arm: str
    prompts: int
    rule: str
    lossless: str
    identity: str
    identity_detail: str
    figures: Mapping[str, Figure]
    guards: tuple[str, ...] = ()
    fidelity: str = ""
    price_exact: bool = True
    quality: Mapping[str, Mapping[str, Figure]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Summary:
    """A run in one page. ``complete`` is False while planned records fail or are missing."""

    run: str
    title: str
    target: str
    dtype: str
    device: str
    complete: bool
    planned: int
    ok: int
    failed: int
    skipped: int
    conversations: int
    resumes: int
    sentence: str
    rows: tuple[SummaryRow, ...]
    warnings: tuple[str, ...]
    failures: tuple[str, ...]
    memory: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    signatures: Mapping[str, str] = field(default_factory=dict)
    """Quality metric -> how it was computed."""
    acceptance: tuple[str, ...] = ()
    """Where the acceptance of servers comes from, in words; older summaries do not say."""
    quant: str = UNQUANTISED
    """What the target's linear layers were quantised to."""
    anchors: tuple[AnchorCheck, ...] = ()
    """Published values that the experiment names."""
    stopped: str = ""
    """Why it was ended before all of its plan was run; older summaries do not say."""
    limit: str = ""
    """What memory allows, in words; empty where that is not known, and in older summaries."""
    schema_version: int = SCHEMA_VERSION

    @property
    def missing(self) -> int:
        """Planned records that are not on disk."""
        return max(0, self.planned - self.ok - self.failed - self.skipped)


_SUMMARY = TypeAdapter(Summary)


def summary_text(summary: Summary) -> str:
    """The summary as a strict JSON document; without anchors or limit where there are none."""
    document = _SUMMARY.dump_python(summary, mode="json")
    if not summary.anchors:
        del document["anchors"]
    if not summary.limit:
        del document["limit"]
    return strict_json(document)


def read_summary(folder: RunFolder) -> Summary:
    """The summary written at the end of a run; ResultError names what is wrong with it."""
    hint = f"specbench rescore {folder.path} makes it again"
    return read_document(folder.summary_json, _SUMMARY, hint)

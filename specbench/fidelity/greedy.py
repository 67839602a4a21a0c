"""Greedy identity: are two outputs the same, different by a numeric tie, or really different?

At temperature 0 a lossless arm emits plain's tokens. Batch shapes change the last bits of the
logits, so that two nearly equal logits may swap; that is a tie, not a defect. After the first
difference the contexts differ and nothing more can be compared (ALGORITHMS 6.6, cases A4).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from specbench.core.trace import Trace


class Kind(StrEnum):
    """Outcome of one comparison.

    ``UNJUDGED`` is a difference under an engine that shows no logits: a tie or a defect, and
    nobody here can tell which.
    """

    IDENTICAL = "identical"
    TIE = "tie"
    UNJUDGED = "unjudged"
    MISMATCH = "mismatch"


@dataclass(frozen=True, slots=True)
class GreedyVerdict:
    """Outcome of one comparison; ``index`` is the first differing output position from 0.

    ``margin`` is the reference's top-1 minus top-2 logit there, None where it was not recorded.
    """

    kind: Kind
    index: int | None = None
    margin: float | None = None

    def __str__(self) -> str:
        return str(self.kind) if self.index is None else f"{self.kind}@{self.index}"


def compare(
    reference_ids: Sequence[int],
    other_ids: Sequence[int],
    margins: Sequence[float | None],
    runner_ups: Sequence[int | None],
    tolerance: float,
) -> GreedyVerdict:
    """Compare two greedy outputs up to their first difference.

    Outputs of different length are never cut to the shorter: the position where one ends and the
    other goes on is a difference like any other.

    Args:
        reference_ids, other_ids: the two outputs; the reference is usually plain.
        margins, runner_ups: top-2 logit margin and second choice per position of the reference;
            where no margin at all was recorded, differences are ``UNJUDGED``.
        tolerance: largest margin that counts as a tie, in logits.
    """
    longest = max(len(reference_ids), len(other_ids))
    for index in range(longest):
        wanted = reference_ids[index] if index < len(reference_ids) else None
        emitted = other_ids[index] if index < len(other_ids) else None
        if wanted == emitted:
            continue
        margin = margins[index] if index < len(margins) else None
        second = runner_ups[index] if index < len(runner_ups) else None
        tie = (
            margin is not None and margin <= tolerance and emitted is not None and emitted == second
        )
        unseen = all(known is None for known in margins)
        kind = Kind.TIE if tie else Kind.UNJUDGED if unseen else Kind.MISMATCH
        return GreedyVerdict(kind, index, margin)
    return GreedyVerdict(Kind.IDENTICAL)


def compare_traces(reference: Trace, other: Trace, tolerance: float) -> GreedyVerdict:
    """``compare`` on two records, with the evidence of the reference spread over its positions.

    Engines that show no token ids are compared by their text, character by character; there a
    difference can never be told from a tie and stays unjudged.
    """
    if not (reference.output_ids and other.output_ids) and (reference.text or other.text):
        return compare([ord(c) for c in reference.text], [ord(c) for c in other.text], (), (), 0.0)
    size = len(reference.output_ids)
    margins: list[float | None] = [None] * size
    seconds: list[int | None] = [None] * size
    evidence = reference.evidence
    rows = zip(evidence.position, evidence.margin, evidence.runner_up, strict=True)
    for position, margin, second in rows:
        margins[position], seconds[position] = margin, second
    return compare(reference.output_ids, other.output_ids, margins, seconds, tolerance)


@dataclass(frozen=True, slots=True)
class GreedySummary:
    """Outcomes of a table cell: ``differing`` names each item that is not identical."""

    identical: int
    differing: tuple[tuple[str, GreedyVerdict], ...]

    def named(self, kind: Kind) -> tuple[tuple[str, GreedyVerdict], ...]:
        """Items of one kind, with their verdicts."""
        return tuple(entry for entry in self.differing if entry[1].kind is kind)

    @property
    def passed(self) -> bool:
        """Whether no difference is known to be a defect; ties alone never fail a gate."""
        return not self.named(Kind.MISMATCH)

    def __str__(self) -> str:
        parts = [f"{self.identical} identical"]
        for kind in (Kind.TIE, Kind.UNJUDGED, Kind.MISMATCH):
            found = self.named(kind)
            if kind is Kind.UNJUDGED and not found:
                continue
            places = "; ".join(
                f"{item}, index {verdict.index}, "
                + ("margin unknown" if verdict.margin is None else f"margin {verdict.margin:.2g}")
                for item, verdict in found
            )
            parts.append(f"{len(found)} {kind}" + (f" ({places})" if places else ""))
        return ", ".join(parts)


def summarise(verdicts: Mapping[str, GreedyVerdict]) -> GreedySummary:
    """Collect the verdicts of a cell, one per item."""
    differing = tuple(
        (item, verdict) for item, verdict in verdicts.items() if verdict.kind is not Kind.IDENTICAL
    )
    return GreedySummary(len(verdicts) - len(differing), differing)

"""A comparison: pairs of arms, their measures by group, what may be said and known first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from specbench.core.arm import PLAIN
from specbench.errors import NotComparable
from specbench.results.comparable import require_comparable
from specbench.results.compare.at_k import Pair, pairs_at
from specbench.results.compare.contrast import Contrast, contrasts
from specbench.results.compare.details import DETAILS, detailed
from specbench.results.compare.fidelity import Fidelity, fidelity, words
from specbench.results.compare.joined import Joined, join
from specbench.results.compare.measures import DEFAULT, MEASURES
from specbench.results.compare.scores import QUALITY, score_contrasts
from specbench.results.compare.sides import RunRows, Side, matched, stopped_early
from specbench.results.compare.split import ALL, Group, groups
from specbench.results.compare.totals import Absent, Totals, totals_of
from specbench.results.compare.verdict import Judged, judge

WAY_ON = "compare runs of one experiment, or name a key that may differ with --allow KEY"
STEADY = 0.05
"""Relative change of plain's own latency between two runs from which on times are not the arm's."""


@dataclass(frozen=True, slots=True)
class Part:
    """What may be said of one group of requests.

    Attributes:
        judged: one verdict per measure.
        fidelity: None where the runs did not judge this group by itself.
    """

    group: Group
    judged: tuple[Judged, ...]
    fidelity: Fidelity | None


@dataclass(frozen=True, slots=True)
class Compared:
    """One pair of arms.

    Attributes:
        base, new: ``RUN:ARM`` of both.
        requests: that were compared.
        parts: by group, all requests of a temperature and load first.
        notes: what to know before reading them.
    """

    base: str
    new: str
    requests: int
    parts: tuple[Part, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Unmeasured:
    """A part before its measures are worked out: their columns, and what needs no resamples."""

    group: Group
    made: tuple[Totals | Absent, ...]
    scores: tuple[Contrast, ...]
    fidelity: Fidelity | None


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """A pair of arms before its measures are worked out."""

    base: str
    new: str
    requests: int
    parts: tuple[_Unmeasured, ...]
    notes: tuple[str, ...]


def compare(
    base: RunRows,
    others: Iterable[RunRows],
    *,
    measures: Sequence[str],
    by: str,
    at: str = "",
    allowed: Collection[str] = (),
    assume_same: bool = False,
) -> list[Compared]:
    """Compare runs, or arms, with one.

    Args:
        others: read one by one; of each the columns of its measures are kept.
        measures: of ``MEASURES``, ``speedup`` or ``quality``; empty for ``DEFAULT``.
        by: of ``split.SPLITS``, or of ``details.DETAILS``, which have measures of their own.
        at: of ``at_k.AT``, for drafts that were measured at several K; empty for arms as they are.
        allowed: keys of the identity that may differ.
        assume_same: take what servers do not say as equal.

    Raises:
        NotComparable: what was measured differs, or no request is in both.
        UsageError: it does not follow which arms are meant.
    """
    asked = [
        pair for new in others for pair in _pairs(base, new, measures, by, at, allowed, assume_same)
    ]
    made = [one for pair in asked for part in pair.parts for one in part.made]
    found = iter(contrasts(made, base.manifest.seed))
    return [
        Compared(
            pair.base,
            pair.new,
            pair.requests,
            tuple(_part(part, [next(found) for _ in part.made]) for part in pair.parts),
            pair.notes,
        )
        for pair in asked
    ]


def _part(part: _Unmeasured, found: Sequence[Contrast]) -> Part:
    # Whether answers are as good is another question than whether they come faster.
    return Part(part.group, (*judge(found), *judge(part.scores)), part.fidelity)


def _pairs(
    base: RunRows,
    new: RunRows,
    measures: Sequence[str],
    by: str,
    at: str,
    allowed: Collection[str],
    assume_same: bool,
) -> list[_Pair]:
    """What is compared of two runs."""
    notes = []
    if base.folder != new.folder:
        manifests = [base.manifest, new.manifest]
        taken = require_comparable(manifests, assume_same, lifted=allowed, way_on=WAY_ON)
        if taken:
            notes.append(f"taken as equal, not known: {', '.join(taken)}")
        if allowed:
            notes.append(f"allowed to differ: {', '.join(allowed)}")
    notes += stopped_early(base, new)
    sides: list[Pair] = (
        pairs_at(base, new, at) if at else [(*pair, []) for pair in matched(base, new)]
    )
    found = [(one, other, join(one, other), chosen) for one, other, chosen in sides]
    for one, other, joined, _ in found:
        require_requests(one, other, joined)
    return [
        _pair(one, other, joined, measures, by, [*chosen, *notes])
        for one, other, joined, chosen in found
    ]


def require_requests(base: Side, new: Side, joined: Joined) -> None:
    """Raise NotComparable where no request is in both."""
    if not len(joined):
        raise NotComparable(
            f"{base.name} and {new.name} have no request in common", _why_nothing(joined)
        )


def _pair(
    base: Side, new: Side, joined: Joined, measures: Sequence[str], by: str, notes: Sequence[str]
) -> _Pair:
    seed, known, scored = base.manifest.seed, dict(MEASURES), not measures or QUALITY in measures
    names = _asked(measures or DEFAULT, base, new)
    if by in DETAILS:
        joined, known = detailed(joined, base, new, by)
        names, by, scored = list(known), "temperature", False
    before, after = words(base), words(new)
    parts = []
    for group, places in groups(joined, by):
        made = tuple(totals_of(name, joined, places, known) for name in names)
        scores = score_contrasts(joined, places, seed, asked=bool(measures)) if scored else []
        told = fidelity(before.get(group), after.get(group))
        parts.append(_Unmeasured(group, made, tuple(scores), told))
    return _Pair(
        base.name,
        new.name,
        len(joined),
        tuple(parts),
        (*notes, *_joining(joined), *_drift(base, new, joined)),
    )


def _asked(measures: Sequence[str], base: Side, new: Side) -> list[str]:
    """Without accept rates of trees, which are of nodes that could not all be accepted."""
    trees = {base.arm.tree, new.arm.tree} != {"chain"}
    left_out = {QUALITY, "accept_rate"} if trees else {QUALITY}
    return [name for name in measures if name not in left_out]


def _joining(joined: Joined) -> list[str]:
    notes = []
    for count, what in (
        (joined.base_only, "requests of the base have no partner"),
        (joined.new_only, "requests of the new one have no partner"),
        (joined.other_prompt, "requests had another prompt, after another earlier answer"),
    ):
        if count:
            notes.append(f"{count} {what} and are left out")
    return notes


def _drift(base: Side, new: Side, joined: Joined) -> list[str]:
    """What plain says of the two occasions: it did the same on both."""
    if not joined.apart:
        return []
    if not (len(base.plain) and len(new.plain)):
        return [
            "times are of two occasions, and there is no plain arm in both to hold them against"
        ]
    plain = [_plain(side) for side in (base, new)]
    beside = join(*plain)
    if not len(beside):
        return ["times are of two occasions, and plain decoded no request in both"]
    notes = []
    for group, places in groups(beside, "temperature"):
        if group.name != ALL:
            continue
        made = totals_of(MEASURES["itl"].name, beside, places)
        if isinstance(made, Absent):
            continue
        before, after = (value.number() for value in made.values)
        if abs(after / before - 1) > STEADY:
            notes.append(
                f"temperature {group.temperature:g}: plain itself took {after / before:.2f} times "
                "as long per token in the new run: read speedup, where each arm is held against "
                "its own plain, not itl, ttft and tokens/s"
            )
    return notes


def _plain(side: Side) -> Side:
    return Side(side.folder, side.manifest, side.manifest.arm(PLAIN), side.plain, side.plain)


def _why_nothing(joined: Joined) -> str:
    if joined.other_prompt:
        return "their prompts differ: other suites, templates or earlier answers"
    return "run them on the same suites, split, temperatures and concurrency"

"""A replay as lines of a table, and as one JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from specbench.core.manifest import SCHEMA_VERSION
from specbench.core.quantity import Missing, Quantity
from specbench.experiment.replay.run import Replay
from specbench.metrics.replayed import (
    ReplayedRequest,
    length_difference,
    outside_vocabulary,
    replayed_alpha,
    replayed_length,
    without_draft,
)
from specbench.report.cells import Footnotes, Grid, number
from specbench.report.study import with_interval
from specbench.results.summary import figure_of

NO_SPEED = "Nothing was decoded: this says how much of a draft is accepted, never how fast it is."
LEGEND = (
    "accept length: tokens per step of the target; alpha: how often the first token of a draft is "
    "accepted; alpha at k: the k-th, where it is reached; no draft: share of places without one"
)
Cells = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Line:
    """One draft with one longest draft, on one suite at one temperature.

    Attributes:
        accept_length: see ``metrics.replayed``, as are the others.
        difference: of the accept length to that of the first draft; None for the first itself.
        alpha: at depth 1.
        alpha_at_k: at depth k.
        no_draft: share of places without a draft.
        outside: share of recorded tokens outside the draft's vocabulary.
    """

    suite: str
    temperature: float
    draft: str
    k: int
    requests: int
    accept_length: Quantity
    difference: Quantity | None
    alpha: Quantity
    alpha_at_k: Quantity
    no_draft: Quantity
    outside: Quantity

    @property
    def quantities(self) -> dict[str, Quantity | None]:
        """Its figures under the names of columns."""
        return {
            "accept_length": self.accept_length,
            "vs_first": self.difference,
            "alpha": self.alpha,
            "alpha_at_k": self.alpha_at_k,
            "no_draft": self.no_draft,
            "outside_vocabulary": self.outside,
        }


def lines(replay: Replay) -> list[Line]:
    """All lines: suites, temperatures, drafts as they were asked for, k ascending."""
    names = [spec.name for spec in replay.asked.drafts.specs]
    seed = replay.manifest.seed
    found = []
    for (suite, temperature), requests in replay.requests.items():
        for name in names:
            outside = outside_vocabulary(requests, name, seed=seed)
            for k in replay.asked.ks:
                difference = None
                if name != names[0]:
                    difference = length_difference(requests, name, names[0], k, seed=seed)
                length = replayed_length(requests, name, k, seed=seed)
                alpha = replayed_alpha(requests, name, k, 1, seed=seed)
                deep = alpha if k == 1 else replayed_alpha(requests, name, k, k, seed=seed)
                empty = without_draft(requests, name, k, seed=seed)
                found.append(
                    Line(
                        suite, temperature, name, k, len(requests),
                        length, difference, alpha, deep, empty, outside,
                    )
                )  # fmt: skip
    return found


def shown(line: Line) -> dict[str, object]:
    """A line for people: three digits, intervals in brackets."""
    return _place(line) | {name: _text(one) for name, one in line.quantities.items()}


def grid(found: Sequence[Line], first: str) -> Grid:
    """All lines for a console: intervals of accept lengths alone, reasons of ``n/a`` below.

    Args:
        first: the draft that the others are held against.
    """
    notes = Footnotes()
    outside = any(line.outside.known and line.outside.number() > 0 for line in found)
    several = any(line.difference is not None for line in found)
    header = [
        *("suite", "T", "draft", "k", "requests", "accept length [95 %]"),
        *([f"against {first}"] if several else []),
        *("alpha", "alpha at k", "no draft"),
        *(["outside vocabulary"] if outside else []),
    ]
    rows = [
        (
            *(line.suite, f"{line.temperature:g}", line.draft, str(line.k), str(line.requests)),
            with_interval(figure_of(line.accept_length), ".2f", notes),
            *([_difference(line, notes)] if several else []),
            *(
                number(figure_of(one), ".3f", notes)
                for one in (line.alpha, line.alpha_at_k, line.no_draft)
            ),
            *([number(figure_of(line.outside), ".3f", notes)] if outside else []),
        )
        for line in found
    ]
    return Grid(tuple(header), tuple(rows), tuple(notes.notes), (LEGEND,))


def _difference(line: Line, notes: Footnotes) -> str:
    if line.difference is None:
        return ""
    return with_interval(figure_of(line.difference), "+.2f", notes)


def flat(line: Line) -> dict[str, object]:
    """A line for programs: unrounded numbers, an empty cell where there is no value."""
    cells = _place(line)
    for name, one in line.quantities.items():
        known = one is not None and one.known
        cells[name] = one.number() if one is not None and known else None
        cells[f"{name}_low"] = one.low if one is not None else None
        cells[f"{name}_high"] = one.high if one is not None else None
    cells["items"] = line.accept_length.n
    cells["method"] = line.accept_length.method
    return cells


def document(replay: Replay, found: Sequence[Line]) -> dict[str, object]:
    """Everything, for a file: what was asked, what ran, the table, and every request's sums."""
    asked, identity = replay.asked, replay.manifest.identity
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "replay",
        "run": replay.manifest.run,
        "arm": asked.arm,
        "run_target": identity.target,
        "run_weight_hash": identity.weight_hash,
        "target": replay.target["target"],
        "temperatures": sorted({temperature for _, temperature in replay.requests}),
        "k": list(asked.ks),
        "drafts": [
            {"name": spec.name, "drafter": spec.drafter, "options": dict(spec.drafter_options)}
            for spec in asked.drafts.specs
        ],
        "engine": dict(replay.target),
        "notes": [*replay.notes, NO_SPEED],
        "left_out": dict(replay.reasons),
        "lines": [
            _place(line) | {name: _document(one) for name, one in line.quantities.items()}
            for line in found
        ],
        "requests": [_request(one) for cell in replay.requests.values() for one in cell],
    }


def _place(line: Line) -> dict[str, object]:
    return {
        "suite": line.suite,
        "temperature": line.temperature,
        "draft": line.draft,
        "k": line.k,
        "requests": line.requests,
    }


def _text(one: Quantity | None) -> str:
    if one is None:
        return ""
    if not one.known:
        return "n/a"
    text = f"{one.number():.3f}"
    return text if one.low is None else f"{text} [{one.low:.3f}, {one.high:.3f}]"


def _document(one: Quantity | None) -> Cells | None:
    if one is None:
        return None
    missing = one.value if isinstance(one.value, Missing) else None
    return {
        "value": None if missing else one.value,
        "low": one.low,
        "high": one.high,
        "level": one.level,
        "n": one.n,
        "unit": one.unit,
        "method": one.method,
        "reason": str(missing) if missing else "",
    }


def _request(one: ReplayedRequest) -> Cells:
    return {
        "key": asdict(one.key),
        "tokens": one.tokens,
        "foreign": one.foreign,
        "drafts": {name: asdict(score) for name, score in one.drafts.items()},
    }

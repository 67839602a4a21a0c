"""Evidence whose numbers are only known within bounds, from the rows that a server lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from specbench.core.request import Sampling
from specbench.core.trace import Evidence, Trace
from specbench.fidelity.columns import ordered
from specbench.fidelity.doubts import Doubts
from specbench.fidelity.kept import TopRow
from specbench.fidelity.top_rows import greedy_row, row_law


@dataclass(slots=True)
class BoundedEvidence(Evidence):
    """Evidence from the listed parts of rows; further columns over the same tokens.

    Attributes:
        log_doubt, entropy_doubt, pit_doubt, excess, tail: see ``fidelity.top_rows.RowLaw``.
        unlisted: 1 where the emitted token is not listed.
    """

    log_doubt: list[float] = field(default_factory=list)
    entropy_doubt: list[float] = field(default_factory=list)
    pit_doubt: list[float] = field(default_factory=list)
    excess: list[float] = field(default_factory=list)
    tail: list[float] = field(default_factory=list)
    unlisted: list[int] = field(default_factory=list)


def bounded_evidence(
    rows: Sequence[TopRow], tokens: Sequence[int], sampling: Sampling
) -> BoundedEvidence:
    """Evidence of an output from the rows its tokens follow; nothing counts as drafted.

    Args:
        rows, tokens: one row per emitted id, [n].
        sampling: the request's settings, without penalties.

    Raises:
        ValueError: a row with one token at temperature 0.
    """
    found = BoundedEvidence()
    for position, (row, token) in enumerate(zip(rows, tokens, strict=True)):
        found.position.append(position)
        found.drafted.append(0)
        add = _greedy if sampling.greedy else _sampled
        values = add(row, token, sampling)
        for name, column in _columns(found).items():
            column.append(values.get(name))
        found.tail.append(row.rest.high)
        found.unlisted.append(int(token not in row.ids))
        for name in _DOUBTS:
            getattr(found, name).append(values.get(name) or 0.0)
    return found


_DOUBTS = ("log_doubt", "entropy_doubt", "pit_doubt", "excess")
_OWN = {"position", "drafted", "tail", "unlisted", *_DOUBTS}


def _columns(found: BoundedEvidence) -> dict[str, list[object]]:
    names = (name for name in found.__dataclass_fields__ if name not in _OWN)
    return {name: getattr(found, name) for name in names}


def _greedy(row: TopRow, token: int, sampling: Sampling) -> dict[str, object]:
    found = greedy_row(row, token)
    return {
        "margin": found.margin,
        "runner_up": found.runner_up,
        "target_top_hit": found.hit,
    }


def _sampled(row: TopRow, token: int, sampling: Sampling) -> dict[str, object]:
    law = asdict(row_law(row, token, sampling))
    if law["support_margin"] == -np.inf:
        law["support_margin"] = None  # how far outside is then not known, only that it is far
    return law


def doubts(traces: Sequence[Trace]) -> Doubts | None:
    """The doubts of one cell; None where its evidence is exact."""
    parts = [t.evidence for t in ordered(traces) if isinstance(t.evidence, BoundedEvidence)]
    if not parts:
        return None
    columns = {
        name: np.concatenate([np.array(getattr(part, name), np.float64) for part in parts])
        for name in (*_DOUBTS, "tail", "unlisted")
    }
    return Doubts(
        log=columns["log_doubt"],
        entropy=columns["entropy_doubt"],
        pit=columns["pit_doubt"],
        excess=columns["excess"],
        tail=float(columns["tail"].max(initial=0.0)),
        unlisted=int(columns["unlisted"].sum()),
    )

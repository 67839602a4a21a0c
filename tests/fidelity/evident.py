"""Records that carry per-token evidence: of a coin with known odds, or of simulated decoding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields

import numpy as np

from specbench.core.trace import Evidence, Trace
from specbench.fidelity.columns import Columns
from tests.fidelity.simulated import part
from tests.metrics.traces import trace


def evidence(count: int, **columns: Sequence[object]) -> Evidence:
    """Evidence of ``count`` tokens without drafts; columns that are not given are absent."""
    absent = {f.name: [None] * count for f in fields(Evidence)}
    plain = {"position": list(range(count)), "drafted": [0] * count}
    return Evidence(**{**absent, **plain, **{k: list(v) for k, v in columns.items()}})


def decoded(count: int, item: str = "a", **changes: object) -> Trace:
    """A valid record of ``count`` tokens: the prefill's, then steps that accept up to three."""
    most = 0 if changes.get("arm") == "plain" else 3
    left = count - 1
    judged = [min(most, left - done - 1) for done in range(0, left, most + 1)]
    made = {"temperature": 0.7, "verified": judged, "accepted": judged, **changes}
    return trace(item, **made)  # type: ignore[arg-type]


def coin_evidence(hits: Sequence[bool]) -> Evidence:
    """Evidence of a target of two equal tokens; ``hits`` are its first choice."""
    count = len(hits)
    return evidence(
        count,
        log_target=[math.log(0.5)] * count,
        entropy=[math.log(2)] * count,
        entropy_variance=[0.0] * count,
        sum_squares=[0.5] * count,
        pit_low=[0.0 if hit else 0.5 for hit in hits],
        pit_width=[0.5] * count,
        target_top=[0.5] * count,
        target_top_hit=[int(hit) for hit in hits],
    )


def coin(hits: Sequence[bool], item: str = "a", **changes: object) -> Trace:
    """A record from a target of two equal tokens; ``hits`` are its first choice, token 1.

    Only two bets of the e-process are defined: on the first choice (factor 1 + stake at a hit,
    1 - stake elsewhere) and on half the temperature, which is the same law here.
    """
    count = len(hits)
    found = decoded(count, item, **changes)
    found.output_ids = [1 if hit else 2 for hit in hits]
    found.evidence = coin_evidence(hits)
    return found


def record(found: Columns, item: str, **changes: object) -> Trace:
    """Columns as the record they would have come from, where nan and -inf are absent."""
    count = len(found)
    columns = {
        f.name: [float(v) if np.isfinite(v) else None for v in getattr(found, f.name)]
        for f in fields(Columns)
        if f.name != "uniform"
    }
    # That some draft law is known is read from the overlap, which no test needs the value of.
    columns["overlap"] = columns["overlap_lenient"]
    made = decoded(count, item, **changes)
    made.evidence = evidence(count, **columns)
    return made


def records(found: Columns, size: int, **changes: object) -> Iterator[Trace]:
    """The columns as records of ``size`` tokens, items p0, p1 and so on."""
    for index, start in enumerate(range(0, len(found), size)):
        yield record(part(found, slice(start, start + size)), f"p{index}", **changes)

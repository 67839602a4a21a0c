"""Per-token evidence of one cell as checked arrays: what the token-level tests read.

Every emitted token counts, at the event "position reached" (ALGORITHMS 1.8). Keeping only accepted
tokens, only rejected positions or only rounds of one length selects tokens by the draws under
test, and even a lossless arm would fail. So a record enters whole or not at all. A request that
failed on its way enters with the tokens it had: the failure stopped it, as a length limit would,
and leaving it out would keep the requests that happened to end before.

Records enter in an order that was fixed before anything was drawn. Requests of one batch finish
in an order that depends on their tokens (short answers first), and an e-process fed in that order
would see the ends of answers before the answers that go on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from specbench.core.request import RequestKey
from specbench.core.trace import Evidence, Trace

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

ROUNDING = 1e-4
"""Probabilities come from float32 rows of a vocabulary's size; sums of them miss 1 by less."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Evidence of n tokens, arrays [n]: ``drafted`` bool, the others float64.

    Logarithms are natural, entropies in nats; meanings are those of ``core.trace.Evidence``. nan is
    absent (nothing drafted, or not recorded), -inf is the logarithm of probability 0.
    ``uniform`` in [0, 1) is the V of the randomised PIT.

    Raises:
        ValueError: a column holds a value that no distribution can give; the message names it.
    """

    drafted: Bools
    log_target: Floats
    log_draft: Floats
    entropy: Floats
    entropy_variance: Floats
    sum_squares: Floats
    pit_low: Floats
    pit_width: Floats
    overlap_lenient: Floats
    draft_top_target: Floats
    draft_top_hit: Floats
    target_top: Floats
    target_top_hit: Floats
    log_untempered: Floats
    support_margin: Floats
    uniform: Floats

    def __post_init__(self) -> None:
        shapes = {f.name: getattr(self, f.name).shape for f in fields(self)}
        if len(set(shapes.values())) > 1:
            raise ValueError(f"columns differ in length: {shapes}")
        for name in _REQUIRED:
            _refuse(name, np.isnan(getattr(self, name)), "is nan")
        for name, low, high in _RANGES:
            values = getattr(self, name)
            outside = (values < low - ROUNDING) | (values > high + ROUNDING)
            _refuse(name, outside, f"is outside [{low:g}, {high:g}]", values)
        ends = self.pit_low + self.pit_width
        _refuse("pit_low + pit_width", ends > 1 + ROUNDING, "is above 1", ends)

    def __len__(self) -> int:
        return len(self.drafted)

    @property
    def outside(self) -> Bools:
        """Where the emitted token has target probability 0; only the support test judges those.

        A replay by other kernels may move a token across the border of the support, so that no
        single such token may decide a test of averages.
        """
        return np.isneginf(self.log_target)


_REQUIRED = (
    "log_target",
    "entropy",
    "entropy_variance",
    "sum_squares",
    "pit_low",
    "pit_width",
    "uniform",
)
_RANGES = (
    ("log_target", -np.inf, 0.0),
    ("log_draft", -np.inf, 0.0),
    ("log_untempered", -np.inf, 0.0),
    ("support_margin", -np.inf, 0.0),
    ("entropy", 0.0, np.inf),
    ("entropy_variance", 0.0, np.inf),
    ("sum_squares", 0.0, 1.0),
    ("pit_low", 0.0, 1.0),
    ("pit_width", 0.0, 1.0),
    ("overlap_lenient", 0.0, 1.0),
    ("draft_top_target", 0.0, 1.0),
    ("draft_top_hit", 0.0, 1.0),
    ("target_top", 0.0, 1.0),
    ("target_top_hit", 0.0, 1.0),
    ("uniform", 0.0, 1.0),
)


def _refuse(name: str, wrong: Bools, what: str, values: Floats | None = None) -> None:
    if wrong.any():
        index = int(wrong.argmax())
        value = "" if values is None else f": {values[index]:g}"
        raise ValueError(f"column {name} {what} at token {index}{value}")


def columns(traces: Sequence[Trace]) -> Columns:
    """The evidence of one cell: records of one arm, temperature above 0, ordered by request.

    Records without target probabilities (greedy, or an engine that shows none) give no tokens.

    Args:
        traces: at most one record per request. The same request at another concurrency draws the
            same random numbers; counting its tokens twice would fake precision.

    Raises:
        ValueError: a request occurs twice, several arms are mixed, a record covers only some of
            its tokens, or a value is impossible.
    """
    if len({trace.arm for trace in traces}) > 1:
        raise ValueError(f"records of several arms: {sorted({trace.arm for trace in traces})}")
    if len({trace.key for trace in traces}) < len(traces):
        raise ValueError("records of one cell must be of different requests")
    parts = [_record(trace) for trace in ordered(traces)]
    names = [f.name for f in fields(Columns)]
    joined = {name: np.concatenate([part[name] for part in parts] or [_EMPTY]) for name in names}
    drafted = joined.pop("drafted").astype(np.bool_)
    return Columns(drafted=drafted, **joined)


def ordered(traces: Sequence[Trace]) -> list[Trace]:
    """The records that ``columns`` reads, in its order."""
    shown = (trace for trace in traces if _shows_target(trace))
    return sorted(shown, key=lambda trace: _place(trace.key))


_EMPTY = np.empty(0)


def _place(key: RequestKey) -> tuple[str, str, int, int]:
    return key.suite, key.item, key.turn, key.repeat


def _shows_target(trace: Trace) -> bool:
    return any(value is not None for value in trace.evidence.entropy)


def _record(trace: Trace) -> dict[str, Floats]:
    """One request's columns; None becomes nan, or -inf where it stands for probability 0."""
    evidence, count = trace.evidence, len(trace.evidence)
    if count != len(trace.output_ids):
        raise ValueError(
            f"evidence of {trace.key} covers {count} of {len(trace.output_ids)} tokens: "
            "tests on a selection of tokens are biased"
        )
    found = {f.name: _array(f.name, evidence) for f in fields(Columns) if f.name != "uniform"}
    # A draft law gave an overlap at each drafted token, whatever was emitted; without one the
    # logarithm is unknown, not that of 0.
    has_law = ~np.isnan(_array("overlap", evidence))
    # Whether an untempered law is recorded is a matter of the request's settings alone.
    has_untempered = np.full(count, not np.isnan(found["log_untempered"]).all())
    everywhere = np.ones(count, dtype=np.bool_)
    for name, known in (
        ("log_target", everywhere),
        ("log_draft", has_law),
        ("log_untempered", has_untempered),
    ):
        found[name] = _zeros_known(found[name], known)
    # A token of probability 0 whose distance to the support was not recorded is far outside.
    found["support_margin"] = _zeros_known(
        found["support_margin"], np.isneginf(found["log_target"])
    )
    return found | {"uniform": uniforms(trace, count)}


def _zeros_known(logs: Floats, known: Bools) -> Floats:
    return np.where(known & np.isnan(logs), -np.inf, logs)


def _array(name: str, evidence: Evidence) -> Floats:
    values: Sequence[float | None] = getattr(evidence, name) or [None] * len(evidence)
    if any(value is not None and np.isnan(value) for value in values):
        raise ValueError(f"column {name} is nan")
    return np.array(values, dtype=np.float64)


def uniforms(trace: Trace, count: int) -> Floats:
    """V of the randomised PIT [count] in [0, 1): the same whenever this record is scored.

    Philox4x64-10 (Salmon et al. 2011) under a key that is a hash of request seed, arm and request,
    so that V owes nothing to the numbers that drew the tokens, nor to other records.
    """
    key = trace.key
    request = [key.suite, key.item, key.turn, float(key.temperature), key.repeat]
    identity = [trace.seed, trace.arm, *request]
    digest = blake2b(json.dumps(identity).encode(), digest_size=16).digest()
    bits = np.random.Philox(key=int.from_bytes(digest, "little")).random_raw(count)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53

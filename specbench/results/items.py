"""items.csv: one row per record, with the counts that comparisons need and its trace's hash."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256

from specbench.core.manifest import Manifest, RecordId, canonical, settings_digest
from specbench.core.trace import Granularity, Trace
from specbench.metrics.alpha import overlaps
from specbench.metrics.degenerate import is_degenerate
from specbench.metrics.timeline import decode_ns, decode_tokens, output_tokens
from specbench.metrics.totals import tally_of
from specbench.quality.score import Scored
from specbench.results.read import Recorded

STEP_SUMS = ("proposed", "verified", "judged", "accepted", "committed")
OVERLAP = ("visited", "overlap")
"""Draft positions at which both laws are on record, and their sum of min(target, draft)."""

SCORES = ("scored_by", "score")
"""The quality metric of an answer, and its score: chrF2 of 0 to 100, or wrong 0 and right 1."""

COLUMNS = (
    *("suite", "item", "turn", "category", "split", "temperature", "repeat", "concurrency"),
    *("arm", "unit", "order", "resumed", "finish", "error", "seed", "prompt_tokens"),
    *("prompt_sha256", "settings_sha256", "output_tokens", "steps", *STEP_SUMS, "cut"),
    *("first_token_ns", "last_token_ns", "output_sha256", "trace_sha256"),
    *("start", "decode_ns", "decode_tokens", *OVERLAP, "degenerate"),
    *SCORES,
)
"""Times are since the request's start, ``decode_ns`` is what ``decode_tokens`` took; empty cells
are values that do not exist.
"""

NOT_SCORED: Mapping[RecordId, Scored] = {}


def item_rows(
    recorded: Recorded, scores: Mapping[RecordId, Scored] = NOT_SCORED
) -> Iterator[list[str]]:
    """Rows of items.csv, sorted by what they are, so that a resumed run gives the same file."""
    for record in sorted(recorded.traces, key=_place):
        trace = recorded.traces[record]
        row = _row(recorded.manifest, record, trace, recorded.hashes[record])
        yield [*row, *_score(scores.get(record))]


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A CSV document with a header line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def _place(record: RecordId) -> tuple[object, ...]:
    key = record.key
    item = (key.suite, key.item, key.turn, key.temperature, key.repeat)
    return (*item, record.concurrency, record.arm)


def _row(manifest: Manifest, record: RecordId, trace: Trace, trace_hash: str) -> list[str]:
    key, steps, times = trace.key, trace.steps, trace.arrivals.t_ns
    cut = next((cut for cut in steps.cut if cut), "")
    sums = [str(sum(getattr(steps, name))) if len(steps) else "" for name in STEP_SUMS]
    step_count = str(len(steps)) if len(steps) else ""
    if trace.granularity is not Granularity.STEP and (tally := tally_of(trace)) is not None:
        told = (None, tally.verified, None, tally.accepted, tally.committed)
        step_count, *sums = ("" if n is None else str(n) for n in (tally.steps, *told))
    return [
        *(key.suite, key.item, str(key.turn), trace.category, trace.split),
        *(repr(key.temperature), str(key.repeat), str(trace.concurrency)),
        *(trace.arm, trace.unit, str(trace.order), str(trace.resumed), trace.finish),
        *(_free_text(trace.error), str(trace.seed), str(trace.prompt_tokens), trace.prompt_hash),
        settings_digest(manifest, record, trace.prompt_hash),
        str(output_tokens(trace)) if trace.ok else "",
        *(step_count, *sums, cut),
        *(str(times[index] - trace.start_ns) if times else "" for index in (0, -1)),
        sha256(canonical(trace.output_ids).encode()).hexdigest() if trace.ok else "",
        trace_hash,
        str(trace.start),
        *((str(decode_ns(trace)), str(decode_tokens(trace))) if trace.ok and times else ("", "")),
        *_overlap(trace),
        str(int(is_degenerate(trace))) if trace.ok and trace.output_ids else "",
    ]


def _score(scored: Scored | None) -> tuple[str, str]:
    if scored is None:
        return "", ""
    return scored.metric, "" if scored.value is None else repr(scored.value)


def _overlap(trace: Trace) -> tuple[str, str]:
    found = overlaps(trace)
    return (str(len(found)), repr(sum(found))) if found else ("", "")


def _free_text(text: str) -> str:
    # A spreadsheet would run a cell that starts like a formula; error texts are not ours.
    line = " ".join(text.split())
    return f"'{line}" if line.startswith(("=", "+", "-", "@")) else line

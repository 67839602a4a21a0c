"""Run folders whose items.csv is written out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from specbench.core.arm import PLAIN
from specbench.core.manifest import ArmFactors, Manifest
from specbench.results.compare.sides import RunRows, open_run
from specbench.results.items import COLUMNS, csv_text
from specbench.results.schema import manifest_document, strict_json
from specbench.results.store import RunFolder
from specbench.results.summary import Summary, SummaryRow, summary_text
from tests.results.records import MANIFEST

MS = 1_000_000


def arm(name: str, **changes) -> ArmFactors:
    """An arm of chains under ``rejection``; plain by that name."""
    if name == PLAIN:
        return ArmFactors(PLAIN, "none", 0, "none", "native", lossless="proven")
    made = ArmFactors(name, "mtp", 3, "rejection", "native", lossless="proven")
    return replace(made, **changes)


def row(item: str, name: str, *, committed=10, steps=5, ms=100.0, first=50.0, **changes) -> dict:
    """A finished record: ``committed`` tokens in ``steps`` steps and ``ms`` of decode time."""
    made = {
        "suite": "suite",
        "item": item,
        "turn": 0,
        "category": "one",
        "split": "test",
        "temperature": 0.0,
        "repeat": 0,
        "concurrency": 1,
        "arm": name,
        "unit": f"u-{item}",
        "order": 0,
        "resumed": 0,
        "finish": "length",
        "error": "",
        "seed": 1,
        "prompt_tokens": 20,
        "prompt_sha256": f"prompt {item}",
        "settings_sha256": "s",
        "output_tokens": committed + 1,
        "steps": steps,
        "proposed": 3 * steps,
        "verified": 3 * steps,
        "judged": 3 * steps,
        "accepted": committed - steps,
        "committed": committed,
        "cut": "",
        "first_token_ns": round(first * MS),
        "last_token_ns": round((first + ms) * MS),
        "output_sha256": f"output {item}",
        "trace_sha256": f"{name} {item}",
        "start": 0,
        "decode_ns": round(ms * MS),
        "decode_tokens": committed,
        "visited": "",
        "overlap": "",
        "degenerate": 0,
        "scored_by": "",
        "score": "",
    }
    return made | changes


def summary_row(name: str, identity: str, suite="suite", temperature=0.0) -> SummaryRow:
    """A cell of which nothing is known but the verdict on its output."""
    return SummaryRow(suite, temperature, 1, name, 2, "rejection", "proven", identity, "", {})


def write_run(
    folder: Path,
    rows: Sequence[dict],
    *,
    arms: Sequence[ArmFactors] | None = None,
    run: str = "",
    summary: Sequence[SummaryRow] = (),
    **manifest,
) -> Manifest:
    """A run folder with manifest, items and summary."""
    folder.mkdir(parents=True)
    names = list(dict.fromkeys(one["arm"] for one in rows))
    made = replace(
        MANIFEST,
        run=run or folder.name,
        arms=tuple(arms or [arm(name) for name in names]),
        **manifest,
    )
    files = RunFolder(folder)
    files.manifest.write_text(strict_json(manifest_document(made)))
    cells = [[str(one[name]) for name in COLUMNS] for one in rows]
    files.items.write_text(csv_text(COLUMNS, cells))
    text = summary_text(
        Summary(
            run=made.run,
            title="title",
            target="model",
            dtype="float32",
            device="cpu",
            complete=True,
            planned=len(rows),
            ok=len(rows),
            failed=0,
            skipped=0,
            conversations=2,
            resumes=0,
            sentence="",
            rows=tuple(summary),
            warnings=(),
            failures=(),
        )
    )
    files.summary_json.write_text(text)
    return made


def opened(folder: Path, name: str = "") -> RunRows:
    """The run, or ``RUN:ARM``."""
    return open_run(f"{folder}:{name}" if name else str(folder), folder.parent)

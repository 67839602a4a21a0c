"""One entry per arm, temperature and load of every run, and why some of them are not ranked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from specbench.core.arm import PLAIN
from specbench.core.manifest import Manifest
from specbench.errors import SpecbenchError
from specbench.results.cells import whole_cell
from specbench.results.compare.sides import RunRows, Side, open_run
from specbench.results.foreign.imported import Imported, read_imported
from specbench.results.read import load_manifest
from specbench.results.store import IMPORTED, MANIFEST, RunFolder
from specbench.results.summary import BROKEN, Figure, Summary, SummaryRow, read_summary
from specbench.results.verdict import EXPLAINED, UNRANKED, headline

NOT_DISCLOSED = "not disclosed"
DIGITS = 12
"""Digits of a hash in a table."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One arm at one temperature and load.

    Attributes:
        run, manifest: where it was measured.
        row: its cell over all suites.
        side: its records; None where items.csv cannot be read.
        files: SHA-256 over items.csv and traces.jsonl.
        reasons: why it is not ranked; empty where it is.
    """

    run: RunFolder
    manifest: Manifest
    row: SummaryRow
    side: Side | None
    files: str
    reasons: tuple[str, ...]

    @property
    def speedup(self) -> Figure:
        """What it is ranked by: without looping outputs where some loop."""
        return headline(self.row)

    @property
    def accept_length(self) -> Figure:
        """On the requests of ``speedup``."""
        whole = self.speedup is self.row.figures["speedup"]
        return self.row.figures["accept_length" if whole else "accept_length_sound"]

    @property
    def lossy(self) -> bool:
        """Whether its rule changes the output."""
        return self.row.lossless in UNRANKED

    @property
    def drafts(self) -> list[Mapping[str, Any]]:
        """What is on record of its draft models or heads."""
        known = self.manifest.engine.get("drafts")
        found = known.get(self.row.arm) if isinstance(known, Mapping) else None
        return [one for one in found or [] if isinstance(one, Mapping)]

    @property
    def draft_bytes(self) -> int | None:
        """Weights of its draft."""
        return self.manifest.memory.get(self.row.arm, {}).get("draft_weights")

    @property
    def training_data(self) -> str:
        """What its draft was trained on, as far as its own files say; empty without a draft."""
        said = [_trained_on(one) for one in self.drafts if "name" in one]
        return "; ".join(dict.fromkeys(said))

    @property
    def chosen(self) -> str:
        """How its K was chosen, as far as the run says."""
        choice = self.manifest.choice
        return str(choice.get("text", NOT_DISCLOSED))

    @property
    def place(self) -> tuple[str, float, int]:
        """Entries of one place may be ranked together."""
        return self.manifest.identity.digest(), self.row.temperature, self.row.concurrency


@dataclass(frozen=True, slots=True)
class Unread:
    """A folder that looks like a run and cannot be read."""

    path: Path
    why: str


def run_folders(out: Path) -> list[RunFolder]:
    """The runs in a folder, oldest first; runs of studies too."""
    return [
        RunFolder(path) for path in sorted({path.parent for path in out.glob(f"**/{MANIFEST}")})
    ]


def entries(out: Path) -> Iterator[Entry | Unread]:
    """What the runs in a folder measured."""
    for folder in run_folders(out):
        try:
            manifest, summary = load_manifest(folder), read_summary(folder)
        except SpecbenchError as error:
            yield Unread(folder.path, error.message)
            continue
        rows, unreadable = _rows(folder)
        files = _hash(folder)
        for row in summary.rows:
            if row.arm != PLAIN and row.suite == whole_cell(manifest):
                reasons = (*_reasons(summary, row), *_still_choosing(manifest), *unreadable)
                side = None if rows is None else rows.side(row.arm)
                yield Entry(folder, manifest, row, side, files, reasons)


def imports(out: Path) -> Iterator[Imported | Unread]:
    """Every import in a folder of runs, by name; none of them is an entry."""
    for path in sorted(out.glob(f"**/{IMPORTED}")):
        try:
            yield read_imported(path.parent)
        except SpecbenchError as error:
            yield Unread(path.parent, error.message)


def _trained_on(draft: Mapping[str, Any]) -> str:
    made = draft.get("made_for")
    said = made.get("trained_on") if isinstance(made, Mapping) else None
    return str(said or NOT_DISCLOSED)


def _rows(folder: RunFolder) -> tuple[RunRows | None, tuple[str, ...]]:
    try:
        return open_run(str(folder.path), folder.path.parent), ()
    except SpecbenchError:
        return None, (f"its items.csv cannot be read: specbench rescore {folder.path.name}",)


def _reasons(summary: Summary, row: SummaryRow) -> Iterator[str]:
    if not summary.complete:
        yield f"the run is not complete: {summary.ok} of {summary.planned} requests"
    if guards := sorted(set(row.guards) - EXPLAINED):
        yield f"guarded: {', '.join(guards)}"
    if row.identity.startswith(BROKEN):
        yield f"its output is not the target's: {row.identity}"
    figure = headline(row)
    if figure.value is None:
        yield f"no speed-up: {figure.reason}"
    elif figure.low is None:
        yield "its speed-up has no interval: too few prompts"
    if row.lossless == "meaningless":
        yield "its acceptance is made up, for timing"


def _still_choosing(manifest: Manifest) -> Iterator[str]:
    """The best of several K on the prompts that chose it is better there than elsewhere."""
    if manifest.choice.get("choosing"):
        yield "a step of a sweep: K was still being chosen on these prompts"


def _hash(folder: RunFolder) -> str:
    found = sha256()
    for path in (folder.items, folder.traces):
        if path.is_file():
            with path.open("rb") as file:
                while chunk := file.read(1 << 20):
                    found.update(chunk)
    return found.hexdigest()

"""A study on disk: runs of one experiment that differ in one key, and what they say together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from specbench.core.manifest import SCHEMA_VERSION, Manifest
from specbench.results.read import find_folder, load_manifest
from specbench.results.schema import read_document, strict_json
from specbench.results.store import MANIFEST, STUDY, ExperimentFolder, RunFolder, write_atomic
from specbench.results.summary import Figure


@dataclass(frozen=True, slots=True)
class StudyFolder(ExperimentFolder):
    """The files of a study; its runs are folders inside."""

    @property
    def document(self) -> Path:
        """What the study is and, once its runs are done, what it found."""
        return self.path / STUDY

    @property
    def page(self) -> Path:
        """The same to read."""
        return self.path / "study.md"

    def runs(self, key: str) -> dict[str, RunFolder]:
        """Value of the key, as text, -> the run with that value."""
        table, _, name = key.partition(".")
        found = {}
        for path in sorted(self.path.glob(f"*/{MANIFEST}")):
            folder = RunFolder(path.parent)
            held = load_manifest(folder).experiment.get(table)
            if isinstance(held, Mapping) and name in held:
                found[str(held[name])] = folder
        return found


@dataclass(frozen=True, slots=True)
class Member:
    """One run of a study.

    Attributes:
        value: of the key, as text.
        run: its folder in the study's; empty while it has not begun.
        state: how many requests are done.
        warnings: why its figures are to be distrusted.
        skipped: requests that were left out, with a reason.
    """

    value: str
    run: str
    complete: bool
    state: str = ""
    dtype: str = ""
    quant: str = ""
    warnings: tuple[str, ...] = ()
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class StudyRow:
    """One arm of one run in one cell.

    Attributes:
        draft_quant: what its draft was quantised to.
        identity: the verdict on its output, in a word.
        figures: accept_length, accept_rate, alpha, speedup (against the plain arm of the same run),
            and difference: of accept length to the same arm under the study's first value.
        guards: reasons to distrust the cell.
    """

    value: str
    suite: str
    temperature: float
    concurrency: int
    arm: str
    draft_quant: str
    lossless: str
    identity: str
    prompts: int
    figures: Mapping[str, Figure]
    guards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StudySummary:
    """A study in one page.

    Attributes:
        key: the key that differs; the first of ``values`` is what others are held against.
        pooled: the suite whose rows stand for all.
        rows: of arms that draft; speeds of different runs are nowhere compared.
        sentences: what changes accept length, by setting and arm, and what could not be shown.
        assumed: keys of the runs' identities that are not known and were taken as equal.
    """

    study: str
    title: str
    key: str
    values: tuple[str, ...]
    complete: bool = False
    members: tuple[Member, ...] = ()
    pooled: str = ""
    rows: tuple[StudyRow, ...] = ()
    sentences: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    schema_version: int = field(default=SCHEMA_VERSION)


_STUDY = TypeAdapter(StudySummary)


def study_text(summary: StudySummary) -> str:
    """The study as a strict JSON document."""
    return strict_json(_STUDY.dump_python(summary, mode="json"))


def read_study(folder: StudyFolder) -> StudySummary:
    """What study.json says; ResultError names what is wrong with it."""
    return read_document(folder.document, _STUDY, "restore the file")


def create_study(out: Path, summary: StudySummary, passed: str, resolved: str) -> StudyFolder:
    """Make the folder of a new study; nothing is overwritten."""
    folder = StudyFolder(out / summary.study)
    folder.begin(passed, resolved)
    write_atomic(folder.document, study_text(summary))
    return folder


def find_study(name: str, out: Path) -> StudyFolder | None:
    """The study behind a name, as ``find_folder`` takes it; None where that is no study."""
    path = find_folder(name, out)
    return StudyFolder(path) if path is not None and (path / STUDY).is_file() else None


def member_manifests(folder: StudyFolder, summary: StudySummary) -> dict[str, Manifest]:
    """Value -> manifest, in the order of the study's values."""
    runs = folder.runs(summary.key)
    return {value: load_manifest(runs[value]) for value in summary.values if value in runs}

"""The run folder: nothing is overwritten, the manifest comes first, files appear whole."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from specbench.core.manifest import Manifest
from specbench.errors import UsageError
from specbench.results.schema import manifest_document, strict_json

MANIFEST, STUDY, IMPORTED = "manifest.json", "study.json", "imported.json"
"""The files that make a folder a run, a study, and figures of another tool."""
IMPORTS = "imported"
"""Where imports lie in a folder of runs."""


@dataclass(frozen=True, slots=True)
class ExperimentFolder:
    """What an experiment left: the folder of a run or a study."""

    path: Path

    @property
    def experiment(self) -> Path:
        """The resolved experiment, a [study] table included; running it again repeats it all."""
        return self.path / "experiment.toml"

    @property
    def passed(self) -> Path:
        """The experiment as it was passed."""
        return self.path / "experiment.passed.toml"

    def begin(self, passed: str, resolved: str) -> None:
        """Make the folder with both; UsageError where it exists: nothing is overwritten."""
        try:
            self.path.mkdir(parents=True)
        except FileExistsError as error:
            raise UsageError(
                f"{self.path} exists already", f"continue it with --resume {self.path}"
            ) from error
        write_atomic(self.passed, passed)
        write_atomic(self.experiment, resolved)


@dataclass(frozen=True, slots=True)
class RunFolder(ExperimentFolder):
    """The files of one run."""

    @property
    def manifest(self) -> Path:
        """What the run is, written before it begins."""
        return self.path / MANIFEST

    @property
    def traces(self) -> Path:
        """Everything that happened; all other files can be rebuilt from it."""
        return self.path / "traces.jsonl"

    @property
    def items(self) -> Path:
        """One row per record."""
        return self.path / "items.csv"

    @property
    def table(self) -> Path:
        """Metrics, long form."""
        return self.path / "table.csv"

    @property
    def summary_json(self) -> Path:
        """The summary as data; `show` prints it."""
        return self.path / "summary.json"

    @property
    def summary_md(self) -> Path:
        """The summary to read."""
        return self.path / "summary.md"

    @property
    def scores(self) -> Path:
        """Outcomes of model-written code that was run; not derived, so it is kept."""
        return self.path / "scores.json"

    def drop_derived(self) -> None:
        """Remove the files that are made from traces.jsonl, before it grows."""
        for path in (self.items, self.table, self.summary_json, self.summary_md):
            path.unlink(missing_ok=True)


def write_atomic(path: Path, text: str) -> None:
    """Replace a file in one step: a reader sees the old or the new content, never half of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; results are as readable as any other file of the user.
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    # The only portable way to read it is to set it.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def probe(out: Path) -> None:
    """Make sure that runs can be written below ``out``, before anything slow begins.

    Raises:
        UsageError: the folder cannot be made or written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"cannot write results to {out}: {reason}", "choose another --out") from (
            error
        )


def new_run_id(settings: str, now: datetime | None = None) -> str:
    """UTC time and the first digits of the settings' digest."""
    moment = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
    return f"{moment}-{settings[:8]}"


def create_run(out: Path, manifest: Manifest, passed: str, resolved: str) -> RunFolder:
    """Make the folder of a new run with its manifest and experiment; nothing is overwritten."""
    folder = RunFolder(out / manifest.run)
    folder.begin(passed, resolved)
    write_atomic(folder.manifest, strict_json(manifest_document(manifest)))
    return folder

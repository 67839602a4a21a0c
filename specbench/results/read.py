"""Reads a run folder back: the manifest, and every record of traces.jsonl with its hash."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from specbench.core.manifest import Manifest, RecordId, settled
from specbench.core.trace import Tick, Trace, Window
from specbench.errors import NotComparable, PrerequisiteError, UsageError
from specbench.results.codec import decode_ticks, decode_trace, decode_windows, parse_line
from specbench.results.schema import ResultError, read_manifest, upgrade
from specbench.results.sessions import TimeLine
from specbench.results.store import IMPORTED, IMPORTS, MANIFEST, STUDY, RunFolder


@dataclass(slots=True)
class Recorded:
    """A run as it is on disk.

    Attributes:
        traces: the latest record of each id, in order of first appearance.
        hashes: SHA-256 of the line of each trace.
        ticks: by arm and unit.
        windows: what counters showed, by arm and unit.
        starts: of each arm, what is known of every start of its server, in order.
        memory: what each arm held, the largest peak of all sessions.
        resumes: how often the run was continued.
        stopped: why it was ended between two units, where it was not continued; else empty.
        complete_bytes: length of the file up to its last whole line.
        torn: whether an unfinished line follows.
    """

    manifest: Manifest
    traces: dict[RecordId, Trace] = field(default_factory=dict)
    hashes: dict[RecordId, str] = field(default_factory=dict)
    ticks: dict[tuple[str, str], list[Tick]] = field(default_factory=dict)
    windows: dict[tuple[str, str], list[Window]] = field(default_factory=dict)
    starts: dict[str, list[Mapping[str, object]]] = field(default_factory=dict)
    memory: dict[str, dict[str, int | None]] = field(default_factory=dict)
    resumes: int = 0
    stopped: str = ""
    complete_bytes: int = 0
    torn: bool = False

    @property
    def settled(self) -> int:
        """Number of records that a resumed run keeps."""
        return sum(settled(trace) for trace in self.traces.values())

    @property
    def finished(self) -> bool:
        """Whether every planned record is there and none has to be tried again."""
        return self.settled >= self.manifest.planned

    @property
    def whole(self) -> bool:
        """Whether every batch that was begun has all of its records."""
        return self.finished or bool(self.stopped)

    @property
    def next_tick(self) -> int:
        """The first tick number that no record uses."""
        recorded = (tick.index for ticks in self.ticks.values() for tick in ticks)
        stepped = (tick for trace in self.traces.values() for tick in trace.steps.tick)
        return max((*recorded, *stepped), default=-1) + 1


def find_folder(name: str, out: Path) -> Path | None:
    """The run or study behind a path, an id or ``last``; None where there is neither.

    ``last`` is the newest of runs and studies; a run inside a study is part of that.
    """
    if name == "last":
        begun = [path.parent for file in (MANIFEST, STUDY) for path in out.glob(f"*/{file}")]
        return max(begun, key=lambda path: path.name, default=None)
    for path in (Path(name), out / name):
        if (path / MANIFEST).is_file() or (path / STUDY).is_file():
            return path
    return None


def find_imported(name: str, out: Path) -> Path | None:
    """The import behind a path or a name; None where there is none."""
    for path in (Path(name), out / name, out / IMPORTS / name):
        if (path / IMPORTED).is_file():
            return path
    return None


def find_run(name: str, out: Path, *, option: str = "--out") -> RunFolder:
    """The run behind a path, a run id or ``last``.

    Args:
        option: what names the folder of runs on the command line.

    Raises:
        PrerequisiteError: there is none.
        UsageError: it is a study; names its runs.
        NotComparable: it is an import, which nothing that was measured here is held against.
    """
    path = find_folder(name, out)
    if path is not None and (path / STUDY).is_file():
        raise UsageError(f"{path} is a study, and one run is needed", _members(path))
    if path is not None:
        return RunFolder(path)
    if (imported := find_imported(name, out)) is not None:
        raise NotComparable(
            f"{imported} holds imported figures, which specbench did not measure",
            f"a run is needed here; `specbench show {imported}` prints them",
        )
    if name == "last":
        raise PrerequisiteError(f"no run in {out}", f"name the folder of runs with {option}")
    raise PrerequisiteError(
        f"no run {name!r}: neither {name}/{MANIFEST} nor {out / name}/{MANIFEST} exists",
        f"give the folder of a run, its id, or 'last'; {option} names the folder of runs",
    )


def _members(study: Path) -> str:
    runs = [RunFolder(path.parent) for path in sorted(study.glob(f"*/{MANIFEST}"))]
    if not runs:
        return f"none of its runs has begun: specbench run --resume {study}"
    lines = [f"{run.path}  ({load_manifest(run).title})" for run in runs]
    return "\n  ".join(["name one of its runs:", *lines])


def load_manifest(folder: RunFolder) -> Manifest:
    """The manifest of a run; ResultError names what is wrong with it."""
    try:
        document = json.loads(folder.manifest.read_bytes())
    except (OSError, ValueError) as error:
        raise ResultError(f"{folder.manifest}: cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise ResultError(f"{folder.manifest}: not a JSON object")
    return read_manifest(document, str(folder.manifest))


def read_run(folder: RunFolder) -> Recorded:
    """Everything a run has recorded; a torn last line is left out and reported.

    Raises:
        ResultError: a damaged line before the last one, or a record that is there twice.
    """
    manifest = load_manifest(folder)
    recorded = Recorded(manifest, memory={arm: {**held} for arm, held in manifest.memory.items()})
    with _nothing_collected():
        _read_traces(folder, recorded)
    return recorded


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """No search for garbage meanwhile: everything made is kept, and looking at it costs as much."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read_traces(folder: RunFolder, recorded: Recorded) -> None:
    line = TimeLine()
    first = True
    for number, raw in _whole_lines(folder.traces, recorded):
        place = f"{folder.traces}, line {number}"
        try:
            record = parse_line(raw)
        except ValueError as error:
            raise ResultError(f"{place}: damaged: {error}", "restore the file") from error
        if first:
            upgrade(record, place)
            first = False
            continue
        try:
            _take(recorded, line, record, raw)
        except (KeyError, TypeError, ValueError) as error:
            raise ResultError(f"{place}: not a record: {error!r}", "restore the file") from error


def _whole_lines(path: Path, recorded: Recorded) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            lines = enumerate(file, start=1)
            held: tuple[int, bytes] | None = None
            for number, raw in lines:
                if held is not None:
                    recorded.complete_bytes += len(held[1])
                    yield held
                held = (number, raw)
    except OSError as error:
        raise ResultError(f"{path}: cannot be read: {error.strerror}") from error
    if held is None:
        return
    # Only the last line can be torn by a crash; every line before it had been flushed.
    if held[1].endswith(b"\n") and _parses(held[1]):
        recorded.complete_bytes += len(held[1])
        yield held
    else:
        recorded.torn = True


def _parses(raw: bytes) -> bool:
    try:
        parse_line(raw)
    except ValueError:
        return False
    return True


def _take(recorded: Recorded, line: TimeLine, record: dict[str, object], raw: bytes) -> None:
    kind = record["record"]
    if kind == "resume":
        recorded.resumes += 1
        recorded.stopped = ""
        line.resume()
    elif kind == "stopped":
        recorded.stopped = str(record["reason"])
    elif kind == "ticks":
        place = (str(record["arm"]), str(record["unit"]))
        recorded.ticks.setdefault(place, []).extend(line.ticks(decode_ticks(record)))
    elif kind == "windows":
        place = (str(record["arm"]), str(record["unit"]))
        recorded.windows.setdefault(place, []).extend(decode_windows(record))
    elif kind == "start":
        facts = record["facts"]
        if not isinstance(facts, dict):
            raise ValueError("facts is not an object")
        recorded.starts.setdefault(str(record["arm"]), []).append(facts)
    elif kind == "memory":
        _take_memory(recorded, str(record["arm"]), record["held"])
    elif kind == "trace":
        trace = line.trace(decode_trace(record))
        name = RecordId(trace.key, trace.arm, trace.concurrency)
        if name in recorded.traces and settled(recorded.traces[name]):
            raise ValueError(f"{trace.key} of arm {trace.arm} is there twice")
        recorded.traces[name] = trace
        recorded.hashes[name] = sha256(raw).hexdigest()
    else:
        raise ValueError(f"unknown kind {kind!r}")


def _take_memory(recorded: Recorded, arm: str, held: object) -> None:
    if not isinstance(held, dict):
        raise ValueError("held is not an object")
    # These grow in a run, and every session of it starts anew.
    for name in ("peak", "draft_state"):
        values = [recorded.memory.get(arm, {}).get(name), held.get(name)]
        largest = max((value for value in values if value is not None), default=None)
        held = {**held, name: largest}
    recorded.memory[arm] = held

"""Reads a run folder back: the manifest, and every record of traces.jsonl with its hash."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from specbench.core.manifest import Manifest, RecordId, settled
from specbench.core.trace import Tick, Trace, Window
from specbench.errors import PrerequisiteError
from specbench.results.codec import decode_ticks, decode_trace, decode_windows, parse_line
from specbench.results.schema import ResultError, read_manifest, upgrade
from specbench.results.sessions import TimeLine
from specbench.results.store import RunFolder


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
    def next_tick(self) -> int:
        """The first tick number that no record uses."""
        recorded = (tick.index for ticks in self.ticks.values() for tick in ticks)
        stepped = (tick for trace in self.traces.values() for tick in trace.steps.tick)
        return max((*recorded, *stepped), default=-1) + 1


def find_run(name: str, out: Path) -> RunFolder:
    """The run behind a path, a run id or ``last``.

    Raises:
        PrerequisiteError: there is none.
    """
    if name == "last":
        runs = sorted(path.parent for path in out.glob("*/manifest.json"))
        if not runs:
            raise PrerequisiteError(f"no run in {out}", "name the folder of runs with --out")
        return RunFolder(runs[-1])
    for path in (Path(name), out / name):
        if (path / "manifest.json").is_file():
            return RunFolder(path)
    raise PrerequisiteError(
        f"no run {name!r}: neither {name}/manifest.json nor {out / name}/manifest.json exists",
        "give the folder of a run, its id, or 'last'",
    )


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
    return recorded


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
        line.resume()
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
    peaks = [recorded.memory.get(arm, {}).get("peak"), held["peak"]]
    known = [peak for peak in peaks if peak is not None]
    recorded.memory[arm] = {**held, "peak": max(known, default=None)}

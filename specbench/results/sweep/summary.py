"""A sweep on disk: what it was asked for, its runs, and what they say together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from specbench.core.manifest import SCHEMA_VERSION
from specbench.errors import PrerequisiteError
from specbench.metrics.goodput import Objective
from specbench.results.schema import read_document, strict_json
from specbench.results.store import MANIFEST, ExperimentFolder, RunFolder, write_atomic
from specbench.results.summary import Figure
from specbench.results.sweep.candidates import Candidate

SWEEP = "sweep.json"
"""The file that makes a folder a sweep."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a sweep was asked for.

    Attributes:
        loads: requests at a time, ascending.
        candidates: everything beside plain.
        prompts: per suite of the first rung, at least.
        minutes: time for all of it; None for no limit.
        objectives: latencies that requests are to keep.
        predict: whether a first run of the longest and the shortest K chooses what is measured.
    """

    loads: tuple[int, ...]
    candidates: tuple[Candidate, ...]
    prompts: int
    minutes: float | None = None
    objectives: tuple[Objective, ...] = ()
    predict: bool = True


@dataclass(frozen=True, slots=True)
class StepDone:
    """One run of a sweep.

    Attributes:
        run: its folder in the sweep's.
        split, prompts: what it measured; prompts with looping outputs are left out of the count.
        arms: plain among them.
        leader: the fastest that may be recommended; empty where nobody may, or nothing was decided.
        dropped: name -> why it was not measured again.
        decided: what ended the race; empty where it went on.
    """

    load: int
    kind: str
    number: int
    run: str
    split: str
    prompts: int
    arms: tuple[str, ...]
    leader: str = ""
    dropped: Mapping[str, str] = field(default_factory=dict)
    decided: str = ""

    @property
    def title(self) -> str:
        """Which step it is."""
        return f"{self.kind} {self.number}" if self.number else self.kind


@dataclass(frozen=True, slots=True)
class Standing:
    """One candidate at one load, in the last run of the dev split that measured it.

    Attributes:
        step: that run's.
        state: what became of it.
        figures: speedup, accept_length, tokens_per_s_user, tokens_per_s_device; with objectives
            attainment and goodput; predicted where a speed-up was.
    """

    load: int
    name: str
    k: int
    nodes: int | None
    step: str
    prompts: int
    state: str
    figures: Mapping[str, Figure]


@dataclass(frozen=True, slots=True)
class InContext:
    """The choice among prompts of one length.

    Attributes:
        best: the fastest there; ``decided`` says whether it surely is, ``why`` why not.
        times_plain: plain's decode time per token over its own.
    """

    load: int
    context: str
    prompts: int
    best: str
    decided: bool
    times_plain: Figure
    why: str = ""


@dataclass(frozen=True, slots=True)
class Position:
    """Acceptance at one position of a draft.

    Attributes:
        judged, reached, accepted: steps, as metric ``accept_pos`` counts them; judged is None where
            an engine tells totals alone.
        cumulative: accepted / judged, with its interval over prompts.
        conditional: accepted / reached, with its interval over prompts.
    """

    position: int
    judged: float | None
    reached: float | None
    accepted: float | None
    cumulative: Figure
    conditional: Figure


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What the test split said.

    Attributes:
        name, runner: the candidate that was confirmed, and the next best; empty for none.
        prompts: behind the figures.
        figures: of the candidate, as in ``Standing``; plain_user and plain_device: plain's tokens
            per second; runner: how many times as fast as the candidate the runner-up was.
        p: two-sided, of the swap test against plain; None where nothing could be tested.
        refused: why it may not be recommended; empty where it may.
        plain_refused: the same of plain.
        guards: reasons to distrust the figures.
        profile: acceptance by position.
    """

    load: int
    run: str
    name: str
    runner: str
    split: str
    prompts: int
    figures: Mapping[str, Figure]
    p: float | None = None
    refused: str = ""
    plain_refused: str = ""
    guards: tuple[str, ...] = ()
    profile: tuple[Position, ...] = ()


@dataclass(frozen=True, slots=True)
class Recommended:
    """The answer at one load.

    Attributes:
        name: what to run; plain where no K was shown to pay; empty while it is not known, or where
            nothing keeps the objectives.
        k, nodes: of it.
        pays: whether speculation was shown to pay.
        sentence: the answer in words.
    """

    load: int
    name: str
    k: int
    nodes: int | None
    pays: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class SweepSummary:
    """A sweep in one page.

    Attributes:
        asked: see ``Asked``.
        split: that chose, ``dev``.
        ended: load -> why its race ended although nothing was decided.
        confirm: load -> prompts per suite of the confirmation, where time was short.
        seconds: folder of a step -> what it took.
        stops: the lowest load from which on no K was shown to pay; None where there is none.
        warnings: what to know before reading it.
    """

    sweep: str
    title: str
    target: str
    asked: Asked
    temperature: float
    complete: bool = False
    device: str = ""
    ended: Mapping[int, str] = field(default_factory=dict)
    confirm: Mapping[int, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    steps: tuple[StepDone, ...] = ()
    standings: tuple[Standing, ...] = ()
    contexts: tuple[InContext, ...] = ()
    confirmed: tuple[Confirmed, ...] = ()
    recommended: tuple[Recommended, ...] = ()
    stops: int | None = None
    warnings: tuple[str, ...] = ()
    schema_version: int = field(default=SCHEMA_VERSION)


_SWEEP = TypeAdapter(SweepSummary)


@dataclass(frozen=True, slots=True)
class SweepFolder(ExperimentFolder):
    """The files of a sweep; its runs are folders inside, by load and step."""

    @property
    def document(self) -> Path:
        """What the sweep is and what it found."""
        return self.path / SWEEP

    @property
    def page(self) -> Path:
        """The same to read."""
        return self.path / "sweep.md"

    @property
    def table(self) -> Path:
        """One row per candidate and load."""
        return self.path / "sweep.csv"

    def place(self, load: int, step: str) -> Path:
        """The folder in which the run of a step lies."""
        return self.path / f"load-{load}" / step

    def run(self, load: int, step: str) -> RunFolder | None:
        """The run of a step, finished or not; None where it has not begun."""
        found = sorted(self.place(load, step).glob(f"*/{MANIFEST}"))
        return RunFolder(found[0].parent) if found else None


def sweep_text(summary: SweepSummary) -> str:
    """The sweep as a strict JSON document."""
    return strict_json(_SWEEP.dump_python(summary, mode="json"))


def read_sweep(folder: SweepFolder) -> SweepSummary:
    """What sweep.json says; ResultError names what is wrong with it."""
    return read_document(folder.document, _SWEEP, "restore the file")


def create_sweep(path: Path, summary: SweepSummary, passed: str, resolved: str) -> SweepFolder:
    """Make the folder of a new sweep; nothing is overwritten."""
    folder = SweepFolder(path)
    folder.begin(passed, resolved)
    write_atomic(folder.document, sweep_text(summary))
    return folder


def find_sweep(name: str, out: Path) -> SweepFolder:
    """The sweep behind a path, a name below ``out``/sweeps, or ``last``.

    Raises:
        PrerequisiteError: there is none.
    """
    if name == "last":
        begun = [path.parent for path in out.glob(f"sweeps/*/{SWEEP}")]
        newest = max(begun, key=lambda path: _begun(path), default=None)
        if newest is not None:
            return SweepFolder(newest)
    for path in (Path(name), out / "sweeps" / name):
        if (path / SWEEP).is_file():
            return SweepFolder(path)
    raise PrerequisiteError(
        f"no sweep {name!r}: neither {Path(name) / SWEEP} nor {out / 'sweeps' / name / SWEEP} "
        "exists",
        "give the folder of a sweep, its name, or 'last'; --out names the folder of results",
    )


def _begun(path: Path) -> int:
    """When a sweep began: its name may be anybody's choice."""
    return SweepFolder(path).experiment.stat().st_mtime_ns

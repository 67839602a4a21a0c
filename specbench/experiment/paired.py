"""Two arms of an experiment held against each other while it runs, and no longer than needed.

The arms are decoded in alternation, so that what the machine does hits both. At planned shares of
the run, or of the time there is where that is over first, what is on disk is looked at
(``results.gate.looks``). The run ends between two units once the gate has failed or everything has
passed; it is then a run like any other that was stopped, and can be continued.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from specbench.catalog import nearest
from specbench.core.arm import PLAIN
from specbench.core.manifest import RecordId
from specbench.core.request import GREEDY_BELOW
from specbench.core.trace import Trace
from specbench.errors import GateFailed, UsageError
from specbench.experiment.analyse import analyse
from specbench.experiment.load import Loaded
from specbench.experiment.prepare import Prepared, prepare
from specbench.experiment.session import Hooks
from specbench.fidelity.greedy import Kind
from specbench.fidelity.verdict import Status
from specbench.measure.clock import Clock, monotonic
from specbench.measure.estimate import Estimate
from specbench.results.cells import ALL_SUITES, Cell, CellRecords, cell_records
from specbench.results.compare.rows import read_rows, rows_of
from specbench.results.compare.sides import RunRows
from specbench.results.fidelity import LOSSY, MEANINGLESS, measure_fidelity
from specbench.results.gate.always import fidelity, gives_up, lost_requests, success
from specbench.results.gate.gate import Gated
from specbench.results.gate.looks import LOOKS, Look
from specbench.results.gate.rules import GateRules
from specbench.results.gate.watched import Watched
from specbench.results.identity import greedy_identity, tolerance
from specbench.results.read import Recorded, load_manifest, read_run
from specbench.results.store import RunFolder

STARTS = 6
"""Starts of each server that cannot live beside the others: few tell little about one more."""
NS_PER_S = 1e9
Records = Mapping[Cell, CellRecords]


def two_arms(loaded: Loaded, base: str, new: str) -> Prepared:
    """The experiment with two of its arms beside plain.

    Raises:
        UsageError: a study, no such arm, or one arm twice.
        GateFailed: the new arm's rule is lossy and the other's is not.
    """
    experiment = loaded.experiment
    if experiment.study is not None:
        raise UsageError("--paired measures one experiment, and this is a study", "remove [study]")
    names = [PLAIN, *experiment.arm]
    for name in (base, new):
        if name not in names:
            raise UsageError(f"the experiment has no arm {name!r}", nearest(name, names))
    if base == new or new == PLAIN:
        raise UsageError(
            f"--base {base} --new {new}: nothing to hold against each other",
            f"name two arms: {', '.join(names)}",
        )
    arms = {name: arm for name, arm in experiment.arm.items() if name in (base, new)}
    text = f"# gate --paired: {base} and {new} alone\n{loaded.passed}"
    prepared = prepare(
        replace(loaded, experiment=experiment.model_copy(update={"arm": arms}), passed=text)
    )
    factors = {arm.name: arm for arm in prepared.factors}
    if base not in factors:
        raise UsageError(f"no server of the arm {base} is given", "add --set server.plain_url=URL")
    if gives_up(factors[base], factors[new]):
        raise GateFailed(
            f"{new}: the rule {factors[new].rule_label} is {factors[new].lossless}, that of {base} "
            "is not",
            "a gate never passes that; specbench run measures what it costs",
        )
    return _with_starts(prepared)


def _with_starts(prepared: Prepared) -> Prepared:
    server = prepared.experiment.server
    if prepared.together or server.starts is not None:
        return prepared
    fewest = min(len(prompts) for prompts in prepared.selection.values())
    changed = server.model_copy(update={"starts": min(STARTS, fewest)})
    return replace(prepared, experiment=prepared.experiment.model_copy(update={"server": changed}))


@dataclass(slots=True)
class Referee:
    """Looks at a run while it goes on, and says when it is decided.

    Attributes:
        prepared: from ``two_arms``.
        base, new: names of the arms.
        max_s: time there is, from the making of this object on.
    """

    prepared: Prepared
    base: str
    new: str
    rules: GateRules
    max_s: float
    clock: Clock = monotonic
    _watched: Watched = field(init=False)
    _begun: int = field(init=False)
    _measuring: int = field(init=False)
    _folder: RunFolder | None = field(default=None, init=False)
    _arms: dict[RecordId, int] = field(default_factory=dict, init=False)
    _planned: int = field(default=1, init=False)
    _pairs: int = field(default=0, init=False)
    _number: int = field(default=0, init=False)
    _reason: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._begun = self.clock()
        cells = {
            (unit.suite, unit.sampling.temperature, unit.concurrency)
            for unit in self.prepared.units()
        }
        self._watched = Watched(self.rules, frozenset(cells))

    def hooks(self, shown: Hooks) -> Hooks:
        """What a session calls: what ``shown`` hears, and the looks."""

        def begin(folder: RunFolder, total: int, cost: Estimate) -> None:
            self._folder, self._planned = folder, total // len(self.prepared.arms)
            self._measuring = self.clock()
            shown.begin(folder, total, cost)

        def advance(trace: Trace) -> None:
            self._count(trace)
            shown.advance(trace)

        return replace(shown, begin=begin, advance=advance, enough=self._enough)

    def _count(self, trace: Trace) -> None:
        name = RecordId(trace.key, "", trace.concurrency)
        self._arms[name] = self._arms.get(name, 0) + 1
        self._pairs += self._arms[name] == len(self.prepared.arms)

    @property
    def _elapsed_s(self) -> float:
        return (self.clock() - self._begun) / NS_PER_S

    def _enough(self) -> str:
        over = self._elapsed_s / self.max_s
        share = max(self._pairs / self._planned, over)
        number = min(LOOKS, int(share * LOOKS))
        if number <= self._number or not (self._pairs or over >= 1):
            return ""
        if self._look(number):
            self._reason = f"decided at look {number} of {LOOKS}"
        elif over >= 1:
            self._reason = f"not decided after {self.max_s / 60:g} minutes"
        return self._reason

    def _look(self, number: int) -> bool:
        """Whether the gate is decided."""
        assert self._folder is not None
        recorded = read_run(self._folder)
        run = RunRows(self._folder, recorded.manifest, rows_of(recorded))
        base, new = run.side(self.base), run.side(self.new)
        look = Look(
            number,
            self._number / LOOKS,
            number / LOOKS,
            (self.clock() - self._measuring) / NS_PER_S / 60,
            bool(self.prepared.started) and not self.prepared.together,
        )
        self._number = number
        self._watched.look(base, new, look)
        lost = len(lost_requests(base, new, run)[1])
        if lost > self.rules.allow_failures * self._planned:
            return True
        records = cell_records(recorded)
        if self._watched.failed or _mismatch(recorded, records, self.new):
            return True
        return self._watched.passed and _judgeable(recorded, records, self.new)

    def gated(self, folder: RunFolder) -> Gated:
        """What the gate comes to, once the run has ended; its tables are written."""
        if not self._reason:
            # Everything planned is there.
            self._look(LOOKS)
        analyse(folder)
        run = RunRows(folder, load_manifest(folder), read_rows(folder))
        base, new = run.side(self.base), run.side(self.new)
        ended = f"stopped early: {self._reason}" if self._reason else "all of it was run"
        return Gated(
            base.name,
            new.name,
            self._watched.requests,
            0,
            (
                success(base, new, run, self.rules.allow_failures),
                *fidelity(base, new),
                *self._watched.checks,
            ),
            (f"{folder.path}: {ended}; {self._pairs} of {self._planned} requests of every arm",),
        )


def _mismatch(recorded: Recorded, records: Records, arm: str) -> bool:
    """Whether a greedy output is surely not plain's: no later request mends that."""
    if recorded.manifest.arm(arm).lossless in (LOSSY, MEANINGLESS):
        return False
    limit = tolerance(recorded.manifest)
    found = (
        greedy_identity(cell, measured, limit)
        for cell, measured in records.items()
        if cell.arm == arm and cell.temperature < GREEDY_BELOW and not cell.category
    )
    return any(summary is not None and summary.named(Kind.MISMATCH) for summary in found)


def _judgeable(recorded: Recorded, records: Records, arm: str) -> bool:
    """Whether the tests of the output could have failed by now.

    What they say is not looked at before the run has ended: a test that is asked once needs no
    allowance for looks.
    """
    verdicts = measure_fidelity(recorded.manifest, records)
    several = len(recorded.manifest.suites) > 1
    return not any(
        found.verdict.status is Status.TOO_FEW
        for cell, found in verdicts.items()
        if cell.arm == arm and not (several and cell.suite == ALL_SUITES)
    )

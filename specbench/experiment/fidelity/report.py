"""The fidelity report of a run: every test of every arm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from specbench.core.arm import PLAIN
from specbench.core.manifest import UNKNOWN
from specbench.core.request import GREEDY_BELOW
from specbench.errors import PrerequisiteError
from specbench.experiment.fidelity.bounds import judge_bounded
from specbench.experiment.fidelity.greedy import against_plain, against_reference
from specbench.experiment.fidelity.line import (
    FAILED,
    PASSED,
    UNDECIDED,
    Judging,
    Line,
    able,
    word,
)
from specbench.experiment.fidelity.notes import evidence_note, replay_notes
from specbench.experiment.fidelity.outputs import judge_outputs
from specbench.experiment.fidelity.prompts import prompt_lines
from specbench.experiment.reference import Reference, replay_run
from specbench.fidelity.conditional import TestResult
from specbench.fidelity.support import REPLAY_TOLERANCE
from specbench.fidelity.verdict import ALPHA, CellVerdict, Status
from specbench.results.cells import ALL_SUITES, Cell, cell_records
from specbench.results.fidelity import LOSSY, MEANINGLESS, CellFidelity, measure_fidelity
from specbench.results.identity import tolerance
from specbench.results.read import Recorded
from specbench.results.summary import DETECTED, UNSEEN


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is known of a run's fidelity.

    Attributes:
        lines: one per test.
        sentences: one per arm, temperature and concurrency, to read.
        notes: what evidence was used, and what could not be.
        outcome: ``FAILED`` where an arm that claims to be lossless, or whose rule nobody knows, is
            not; ``undecided`` where no such arm could be judged. Plain alone passes for nobody
            else.
    """

    lines: tuple[Line, ...]
    sentences: tuple[str, ...]
    notes: tuple[str, ...]
    outcome: str

    @property
    def told(self) -> str:
        """The outcome and whose it is: an arm of an unknown rule does not claim to be lossless."""
        unknown = {line.lossless == UNKNOWN for line in _deciding(self.lines)}
        whose = "arms whose rule is unknown" if True in unknown else "lossless arms"
        both = "lossless arms and of " if len(unknown) == 2 else ""
        return f"fidelity of {both}{whose}: {self.outcome}"


def report(
    recorded: Recorded,
    reference: Reference | None,
    *,
    alpha: float = ALPHA,
    outputs: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Judge a run.

    Args:
        reference: a model that every output is replayed on; None for the run's own evidence.
        alpha: chance of any false alarm, for each kind of evidence: temperature 0, tokens, and
            whole outputs.
        outputs: compare whole outputs with plain's as well, which needs no probabilities; done
            without asking where there are none.

    Raises:
        UsageError: the suites of the run are not there, so that nothing can be replayed.
        PrerequisiteError: nothing of the run can be judged.
    """
    manifest = recorded.manifest
    notes, before = [evidence_note(recorded.traces.values())], []
    ties, border, whole = tolerance(manifest), 0.0, recorded.whole
    same: bool | None = None
    if reference is not None:
        replayed = replay_run(recorded, reference, on_progress)
        recorded = replace(recorded, traces=dict(replayed.traces))
        # Outputs differ by the rounding of the run, whatever the margins are measured with.
        ties, border = max(ties, reference.tie_tolerance), REPLAY_TOLERANCE
        notes, same = replay_notes(replayed), replayed.same_weights
        before = prompt_lines(manifest, replayed.prompts)
    records = {
        cell: found
        for cell, found in cell_records(recorded).items()
        if found.traces
        and not cell.category
        and (cell.suite == ALL_SUITES or len(manifest.suites) == 1)
    }
    if not records and not before:
        raise PrerequisiteError("no request of this run can be judged", "; ".join(notes))
    measured = measure_fidelity(
        manifest,
        records,
        alpha,
        support_tolerance=border,
        tie_tolerance=ties,
        complete=whole,
    )
    measured, bounds = judge_bounded(measured, records, alpha, border)
    run = Judging(manifest, records, alpha, outputs, ties, reference is not None, same)
    judged = [_judge(run, cell, found) for cell, found in measured.items()]
    lines = (*before, *(line for of_cell, _ in judged for line in of_cell))
    told = [f"T={x.temperature:g} {x.arm}: prompt {x.verdict}, {x.note}" for x in before]
    sentences = (*told, *(text for _, text in judged))
    return Report(lines, sentences, (*notes, *bounds), _outcome(lines))


def _outcome(lines: Sequence[Line]) -> str:
    """FAILED where any cell failed, passed where all passed; plain counts only if it is alone."""
    if any(line.verdict == FAILED for line in _claims(lines)):
        return FAILED
    cells: dict[tuple[float, int, str], bool] = {}
    for line in _deciding(lines):
        cell = (line.temperature, line.concurrency, line.arm)
        cells[cell] = cells.get(cell, False) or line.verdict == PASSED
    return PASSED if cells and all(cells.values()) else UNDECIDED


def _claims(lines: Sequence[Line]) -> list[Line]:
    return [line for line in lines if line.lossless not in (LOSSY, MEANINGLESS)]


def _deciding(lines: Sequence[Line]) -> list[Line]:
    """The lines that have to pass."""
    claims = _claims(lines)
    return [line for line in claims if line.arm != PLAIN] or claims


def _judge(run: Judging, cell: Cell, found: CellFidelity) -> tuple[list[Line], str]:
    """Tests and sentence of one cell."""
    arm = run.manifest.arm(cell.arm)
    start = Line(
        cell.temperature, cell.concurrency, cell.arm, arm.rule_label, arm.lossless,
        "", 0, None, None, None, UNDECIDED, UNDECIDED,
    )  # fmt: skip
    place = f"T={cell.temperature:g} {cell.arm}"
    place += f" c={cell.concurrency}" if len(run.manifest.identity.concurrency) > 1 else ""
    place += f" (rule {arm.rule_label}: {arm.lossless})" if cell.arm != PLAIN else ""
    if cell.temperature < GREEDY_BELOW:
        lines = [against_plain(run, cell, start, found.greedy)]
        replayed = against_reference(run, cell, start) if run.replayed else None
        lines += [replayed] if replayed else []
        told = [f"{line.verdict if line.n else 'not compared'}, {line.note}" for line in lines]
        return lines, f"{place}: {'; '.join(told)}"
    verdict = found.verdict
    spoken = word(arm.lossless, _WORDS[verdict.status])
    lines = [_token_line(run, start, verdict, test) for test in verdict.tests]
    sentence = f"{place}: {_told(spoken, verdict)}"
    if (run.outputs or verdict.status is Status.NOT_TESTED) and cell.arm != PLAIN:
        further, told_outputs = judge_outputs(run, cell, start)
        lines += further
        sentence += f"; {told_outputs}"
    return lines or [replace(start, test="none", note=verdict.reason)], sentence


_WORDS = {
    Status.PASSED: PASSED,
    Status.FAILED: FAILED,
    Status.TOO_FEW: UNDECIDED,
    Status.NOT_TESTED: UNDECIDED,
}


def _token_line(run: Judging, start: Line, verdict: CellVerdict, test: TestResult) -> Line:
    """One token-level test; where nothing is truncated the support test could not have failed."""
    spoken = word(start.lossless, _WORDS[verdict.status])
    if test.spoiled:
        return replace(start, test=test.name, n=test.n, note=f"not available: {test.spoiled}")
    able_to = test.detectable
    if test.name == "support" and not run.truncated(start.temperature):
        able_to = None
    # Holm may fail a cell by a test that misses its own level.
    decides = verdict.status is Status.FAILED and test == verdict.deciding
    own = word(start.lossless, FAILED if decides or test.p <= test.alpha else PASSED)
    return replace(
        start, test=test.name, n=test.n, statistic=test.statistic, p=test.p, detectable=able_to,
        result=able(own, able_to), verdict=able(spoken, able_to), note=test.note,
    )  # fmt: skip


def _told(spoken: str, verdict: CellVerdict) -> str:
    if spoken == MEANINGLESS:
        return f"{spoken}, acceptance is made up"
    if spoken in (DETECTED, UNSEEN):
        return f"{spoken}: {str(verdict).removeprefix('FAILED: ').removeprefix('passed, ')}"
    return str(verdict)

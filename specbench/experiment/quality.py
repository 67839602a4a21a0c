"""Quality of the answers of a run: scored once, compared with plain in every cell.

Code that was run leaves its outcome in ``scores.json``, by the hash of the program, so that tables
can be made again without running it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from specbench.core.manifest import RecordId
from specbench.core.quantity import nothing
from specbench.core.trace import Trace
from specbench.errors import UsageError
from specbench.experiment.rebuild import run_prompts
from specbench.quality.answers import Answer, answers_of
from specbench.quality.definitions import CODE, DEFINITIONS
from specbench.quality.measure import Quality, compare
from specbench.quality.python_code import program
from specbench.quality.score import Scored, score_answers
from specbench.results.cells import Cell, CellRecords
from specbench.results.read import Recorded
from specbench.results.schema import ResultError, upgrade
from specbench.results.store import RunFolder, write_atomic

SCORES_VERSION = 1


@dataclass(frozen=True, slots=True)
class MeasuredQuality:
    """Quality per cell.

    Attributes:
        scores: of every answer that can be scored.
        warning: why nothing could be, or empty.
    """

    cells: Mapping[Cell, Quality]
    scores: Mapping[RecordId, Scored]
    warning: str = ""


def measure_quality(
    folder: RunFolder, recorded: Recorded, records: Mapping[Cell, CellRecords], execute: bool
) -> MeasuredQuality:
    """Score every answer and compare each cell with plain.

    Args:
        records: of every cell; categories are left out.
        execute: whether model-written code may be run, in a sandbox.

    Raises:
        PrerequisiteError: code is to be run and this machine cannot fence it off.
    """
    chosen = {cell: found for cell, found in records.items() if not cell.category}
    try:
        prompts = run_prompts(recorded.manifest)
        answers = {
            record: answer
            for record, trace in recorded.traces.items()
            for answer in answers_of([trace], prompts)
        }
    except UsageError as error:
        empty = {name: {"value": nothing(error.message, d.unit)} for name, d in DEFINITIONS.items()}
        return MeasuredQuality(
            dict.fromkeys(chosen, Quality(empty, {})),
            {},
            f"answers are not scored: {error.message}",
        )
    scored = score_answers(list(answers.values()), execute=execute)
    if execute:
        _keep_code(folder, scored)
    else:
        scored = _with_recorded_code(folder, scored)
    by_record = dict(zip(answers, scored, strict=True))

    def scores(traces: Sequence[Trace]) -> list[Scored]:
        names = [RecordId(trace.key, trace.arm, trace.concurrency) for trace in traces]
        return [by_record[name] for name in names if name in by_record]

    seed = recorded.manifest.seed
    return MeasuredQuality(
        {
            cell: compare(scores(found.traces), scores(found.plain), seed=seed)
            for cell, found in chosen.items()
        },
        by_record,
    )


def _with_recorded_code(folder: RunFolder, scored: Sequence[Scored]) -> list[Scored]:
    """Outcomes of code that was run earlier, where it is not run now."""
    if not folder.scores.exists():
        return list(scored)
    try:
        document = json.loads(folder.scores.read_bytes())
        held = upgrade(document, str(folder.scores), {}, SCORES_VERSION)["code"]
        if not isinstance(held, dict) or not {*held.values()} <= {0.0, 1.0}:
            raise ValueError("code does not hold outcomes of 0 or 1")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultError(f"{folder.scores}: cannot be read: {error!r}", "remove it") from error
    kept = {name: float(value) for name, value in held.items()}
    return [
        replace(one, value=kept.get(_program_hash(one.answer)))
        if one.metric == CODE and one.value is None
        else one
        for one in scored
    ]


def _keep_code(folder: RunFolder, scored: Sequence[Scored]) -> None:
    values = {
        _program_hash(one.answer): one.value
        for one in scored
        if one.metric == CODE and one.value is not None
    }
    document = {"schema_version": SCORES_VERSION, "code": dict(sorted(values.items()))}
    write_atomic(folder.scores, json.dumps(document, indent=1) + "\n")


def _program_hash(answer: Answer) -> str:
    source = program(answer.text, answer.conversation, answer.scoring)
    return sha256((source or "").encode()).hexdigest()

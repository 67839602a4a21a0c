"""Temperature 0: an arm against plain, with plain's own noise as the floor, and the reference."""

from __future__ import annotations

from dataclasses import replace

from specbench.core.arm import PLAIN
from specbench.core.request import GREEDY_BELOW
from specbench.core.trace import Trace
from specbench.experiment.fidelity.line import (
    FAILED,
    PASSED,
    UNDECIDED,
    Judging,
    Line,
    word,
)
from specbench.fidelity.floor import Agreement, Floor, noise_floor
from specbench.fidelity.greedy import GreedySummary, Kind
from specbench.fidelity.repeats import self_agreement
from specbench.results.cells import Cell


def against_plain(run: Judging, cell: Cell, start: Line, found: GreedySummary | None) -> Line:
    """The arm against plain, by how often plain agrees with itself over repeats and concurrencies.

    Where plain disagrees with itself and the outputs are too few, nothing can be said.
    """
    if found is None:
        alone = "plain is what others are compared with"
        unpaired = "no output has one of plain's with the same prompt"
        return replace(start, test="identical", note=alone if cell.arm == PLAIN else unpaired)
    plain = [
        trace
        for other, held in run.records.items()
        if other.temperature < GREEDY_BELOW and other.suite == cell.suite and other.arm == PLAIN
        for trace in held.traces
    ]
    rivals, total = run.rivals(cell), found.identical + len(found.differing)
    wrong = len(found.named(Kind.MISMATCH))
    agree, again = Agreement(total - wrong, total), self_agreement(plain, run.ties)
    floor = noise_floor(agree, again, alpha=run.alpha / rivals)
    if floor.p is not None:
        floor = replace(floor, p=min(1.0, rivals * floor.p))
    verdict = PASSED if not wrong or floor.verdict is Floor.WITHIN else FAILED
    if floor.verdict is Floor.TOO_FEW:
        verdict = UNDECIDED
    return replace(
        start, test="identical", n=total, statistic=float(wrong), p=floor.p,
        detectable=floor.detectable, verdict=word(start.lossless, verdict),
        note=f"{found}; {floor}",
    )  # fmt: skip


def against_reference(run: Judging, cell: Cell, start: Line) -> Line | None:
    """Replayed tokens that are not the reference's choice; None where nothing was replayed.

    A token is excused where the reference's top-2 margin is within the tolerance and the token is
    the runner-up. Each is judged given the recorded tokens before it, so one tie does not spoil
    what follows; and plain is judged as well, whose mistakes every arm shares.
    """
    rows = [row for trace in run.records[cell].traces for row in _first_choices(trace)]
    if not rows:
        return None
    wrong = [
        margin
        for hit, margin, second in rows
        if not hit and not (second and margin is not None and margin <= run.ties)
    ]
    misses = sum(not hit for hit, _, _ in rows)
    largest = max((margin for margin in wrong if margin is not None), default=0.0)
    note = f"{len(rows) - misses} of {len(rows)} tokens are the reference's first choice"
    note += f", {misses - len(wrong)} ties" if misses > len(wrong) else ""
    note += f", {len(wrong)} are not (margin up to {largest:.2g})" if wrong else ""
    return replace(
        start, test="reference", n=len(rows), statistic=float(len(wrong)),
        verdict=word(start.lossless, FAILED if wrong else PASSED), note=note,
    )  # fmt: skip


def _first_choices(trace: Trace) -> list[tuple[int, float | None, bool]]:
    """Per replayed token: first choice or not, margin there, and whether it is the runner-up."""
    evidence = trace.evidence
    columns = (evidence.target_top_hit, evidence.margin, evidence.runner_up)
    return [
        (hit, margin, second == token)
        for hit, margin, second, token in zip(*columns, trace.output_ids, strict=True)
        if hit is not None
    ]

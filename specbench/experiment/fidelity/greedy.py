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

    Where plain disagrees with itself and the outputs are too few, nothing can be said; nor where
    no logits tell a tie from a defect and plain was not repeated.
    """
    if found is None:
        note = "no output has one of plain's with the same prompt"
        if cell.arm == PLAIN:
            note = "plain is what others are compared with"
        elif not run.has_plain:
            note = "the run has no plain arm"
        return replace(start, test="identical", note=note)
    plain = [
        trace
        for other, held in run.records.items()
        if other.temperature < GREEDY_BELOW and other.suite == cell.suite and other.arm == PLAIN
        for trace in held.traces
    ]
    rivals, total = run.rivals(cell), found.identical + len(found.differing)
    wrong, unjudged = len(found.named(Kind.MISMATCH)), len(found.named(Kind.UNJUDGED))
    agree = Agreement(total - wrong - unjudged, total)
    again = self_agreement(plain, run.ties)
    floor = noise_floor(agree, again, alpha=run.alpha / rivals)
    if floor.p is not None:
        floor = replace(floor, p=min(1.0, rivals * floor.p))
    verdict = PASSED if agree.agree == total or floor.verdict is Floor.WITHIN else FAILED
    blind = unjudged and not wrong and floor.verdict is Floor.NONE
    if blind or floor.verdict is Floor.TOO_FEW:
        verdict = UNDECIDED
    return replace(
        start, test="identical", n=total, statistic=float(wrong + unjudged), p=floor.p,
        detectable=floor.detectable, result=word(start.lossless, verdict),
        verdict=word(start.lossless, verdict), note=f"{found}; {floor}",
    )  # fmt: skip


def against_reference(run: Judging, cell: Cell, start: Line) -> Line | None:
    """Replayed tokens that are not the reference's choice; None where nothing was replayed.

    A token is excused where the reference's top-2 margin is within the tolerance and the token is
    the runner-up. Each is judged given the recorded tokens before it, so one tie does not spoil
    what follows; and plain is judged as well, whose mistakes every arm shares. Where the run's
    weights are not known to be the reference's, a quantised copy of them may choose otherwise: then
    only an arm that does so more often than plain fails.
    """
    rows, wrong = _judged(run, cell)
    if not rows:
        return None
    misses = sum(not hit for hit, _, _ in rows)
    largest = max((margin for margin in wrong if margin is not None), default=0.0)
    note = f"{len(rows) - misses} of {len(rows)} tokens are the reference's first choice"
    note += f", {misses - len(wrong)} ties" if misses > len(wrong) else ""
    note += f", {len(wrong)} are not (margin up to {largest:.2g})" if wrong else ""
    verdict = FAILED if wrong else PASSED
    if wrong and run.same_weights is None:
        verdict, why = _beside_plain(run, cell, Agreement(len(rows) - len(wrong), len(rows)))
        note += f"; {why}"
    spoken = word(start.lossless, verdict)
    return replace(
        start, test="reference", n=len(rows), statistic=float(len(wrong)),
        result=spoken, verdict=spoken, note=note,
    )  # fmt: skip


def _beside_plain(run: Judging, cell: Cell, arm: Agreement) -> tuple[str, str]:
    """Does the arm leave an unknown model's choices more often than plain does?"""
    unknown = "other weights or kernels than the reference's may do this"
    plain = cell._replace(arm=PLAIN)
    if cell.arm == PLAIN or plain not in run.records:
        return UNDECIDED, unknown
    rows, wrong = _judged(run, plain)
    reference = Agreement(len(rows) - len(wrong), len(rows))
    floor = noise_floor(arm, reference, alpha=run.alpha / run.rivals(cell))
    if floor.verdict is Floor.BELOW:
        return FAILED, f"plain's are, {reference}"
    return UNDECIDED, f"plain's are as often, {reference}: {unknown}"


def _judged(
    run: Judging, cell: Cell
) -> tuple[list[tuple[int, float | None, bool]], list[float | None]]:
    """Replayed tokens of a cell, and the margins of those that no tie excuses."""
    rows = [row for trace in run.records[cell].traces for row in _first_choices(trace)]
    wrong = [
        margin
        for hit, margin, second in rows
        if not hit and not (second and margin is not None and margin <= run.ties)
    ]
    return rows, wrong


def _first_choices(trace: Trace) -> list[tuple[int, float | None, bool]]:
    """Per replayed token: first choice or not, margin there, and whether it is the runner-up."""
    evidence = trace.evidence
    columns = (evidence.target_top_hit, evidence.margin, evidence.runner_up)
    return [
        (hit, margin, second == token)
        for hit, margin, second, token in zip(*columns, trace.output_ids, strict=True)
        if hit is not None
    ]

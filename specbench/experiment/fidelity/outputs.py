"""Whole outputs against plain's, for engines that show no probabilities."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from specbench.core.trace import Finish, Trace
from specbench.experiment.fidelity.line import (
    FAILED,
    PASSED,
    UNDECIDED,
    Judging,
    Line,
    able,
    word,
)
from specbench.fidelity.sample_verdict import Outcome, SequenceTest, TwoSample
from specbench.fidelity.sequence import PERMUTATIONS, same_vs_same, two_sample
from specbench.results.cells import Cell

_OUTCOMES = {Outcome.PASSED: PASSED, Outcome.FAILED: FAILED, Outcome.TOO_FEW: UNDECIDED}
PRIMARY = "mmd"


def judge_outputs(run: Judging, cell: Cell, start: Line) -> tuple[list[Line], str]:
    """One line per test of an arm that is not plain, and what to say of them.

    Args:
        start: the line of this cell, without a test.
    """
    if not run.records[cell].plain:
        note = "the run has no plain arm"
        return [replace(start, test="outputs", note=note)], f"whole outputs: not compared, {note}"
    both, itself = _outputs(run, cell)
    decided = "; ".join(str(test) for test in both.tests if test.outcome is both.outcome)
    verdict = _OUTCOMES[both.outcome]
    if _weak(both):
        verdict = UNDECIDED
        decided = f"{_primary(both)}; only weaker tests could have failed: {decided}"
    spoken = word(start.lossless, verdict)
    lines = [
        _output_line(start, both.tests[i], spoken, run.rivals(cell)) for i in range(len(both.tests))
    ]
    return lines, f"whole outputs: {spoken} ({decided}), plain against itself: {itself.outcome}"


def _primary(found: TwoSample) -> SequenceTest:
    """The test of whole outputs; the others look at one side of them."""
    return next(test for test in found.tests if test.name == PRIMARY)


def _weak(found: TwoSample) -> bool:
    """Whether nothing failed, but only tests spoke that most defects leave alone."""
    return found.outcome is Outcome.PASSED and _primary(found).outcome is Outcome.TOO_FEW


def _output_line(start: Line, test: SequenceTest, spoken: str, rivals: int) -> Line:
    """The line of one test; ``spoken`` is the word for all of them."""
    return replace(
        start, test=f"outputs:{test.name}", n=test.n_arm + test.n_reference,
        statistic=test.statistic, detectable=test.detectable, note=test.note,
        p=None if test.adjusted is None else min(1.0, rivals * test.adjusted),
        result=able(word(start.lossless, _OUTCOMES[test.outcome]), test.detectable),
        verdict=able(spoken, test.detectable),
    )  # fmt: skip


def _outputs(run: Judging, cell: Cell) -> tuple[TwoSample, TwoSample]:
    """The arm's outputs against plain's, and plain's against its own.

    All arms get the same random numbers for the same repeat, so that equal repeats are no two
    samples: the arm is represented by its even repeats, plain by its odd ones.
    """
    records, seed, alpha = run.records[cell], run.manifest.seed, run.alpha / run.rivals(cell)
    # An engine that gives no ids now and then is read by its text throughout.
    text = any(t.text and not t.output_ids for t in (*records.traces, *records.plain) if t.ok)
    arm, arm_ended = _samples(records.traces, (0,), text)
    plain, plain_ended = _samples(records.plain, (1,), text)
    # The smallest p has to lie well below the share of alpha that each of four tests gets.
    permutations = max(PERMUTATIONS, ceil(20 / alpha))
    both = two_sample(
        arm, plain, seed=seed, arm_ended=arm_ended, reference_ended=plain_ended, alpha=alpha,
        permutations=permutations,
    )  # fmt: skip
    every, every_ended = _samples(records.plain, (0, 1), text)
    return both, same_vs_same(
        every, seed=seed, ended=every_ended, alpha=alpha, permutations=permutations
    )


def _samples(
    traces: tuple[Trace, ...], parities: tuple[int, ...], text: bool
) -> tuple[dict[str, list[list[int]]], dict[str, list[bool]]]:
    """Outputs by prompt, and whether each ended by itself.

    Args:
        parities: which repeats, by their remainder modulo 2.
        text: read code points of the text instead of token ids.
    """
    outputs: dict[str, list[list[int]]] = {}
    ended: dict[str, list[bool]] = {}
    for trace in traces:
        if trace.ok and trace.key.repeat % 2 in parities:
            key = trace.key
            prompt = f"{key.suite}/{key.item}/{key.turn}/{trace.prompt_hash}"
            tokens = [ord(letter) for letter in trace.text] if text else list(trace.output_ids)
            outputs.setdefault(prompt, []).append(tokens)
            ended.setdefault(prompt, []).append(trace.finish in (Finish.EOS, Finish.STOP))
    return outputs, ended

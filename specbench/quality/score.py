"""Scores single answers: one number each, whatever the kind of the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specbench.errors import PrerequisiteError
from specbench.quality.answers import Answer, until_stop
from specbench.quality.definitions import CHRF, CODE, JSON
from specbench.quality.json_answer import judge
from specbench.quality.python_code import program
from specbench.quality.sandbox import Sandbox, open_sandbox
from specbench.quality.sandbox_outcome import Outcome, Ran
from specbench.quality.translation import Segment, segments

NOT_EXECUTED = "code is not executed; --score code"


@dataclass(frozen=True, slots=True)
class Scored:
    """An answer with its score.

    Attributes:
        answer: what was scored.
        metric: ``quality_code`` and ``quality_json`` (right 1, wrong 0) or ``quality_chrf``
            (sentence chrF2, 0 to 100).
        value: the score; None for code that was not executed.
        detail: why the score is what it is, in one line; empty where there is nothing to add.
        surrounded: json: there is text around the object.
        segment: translation: the counts that corpus scores are made of.
    """

    answer: Answer
    metric: str
    value: float | None
    detail: str = ""
    surrounded: bool = False
    segment: Segment | None = None


def score_answers(
    answers: Sequence[Answer], *, execute: bool, sandbox: Sandbox | None = None
) -> list[Scored]:
    """Score each answer by the kind of its prompt, in the order given.

    Equal programs are run once, so equal answers to one prompt score equal.

    Args:
        answers: of any arms and suites.
        execute: whether model-written code may be run.
        sandbox: where code is run; None opens one if it is needed.

    Raises:
        PrerequisiteError: code is to be run and this machine cannot fence it off, or translations
            are to be scored without sacrebleu.
        ValueError: a kind of scoring that does not exist.
    """
    translations = [answer for answer in answers if answer.scoring.kind == "translation"]
    counted = iter(
        segments(
            [until_stop(answer.text) for answer in translations],
            [answer.reference or "" for answer in translations],
            [answer.scoring.target_language for answer in translations],
        )
    )
    code = any(answer.scoring.kind == "python" for answer in answers)
    runner = _Runner((sandbox or open_sandbox()) if code and execute else None)
    found = []
    for answer in answers:
        kind = answer.scoring.kind
        if kind == "translation":
            segment = next(counted)
            found.append(Scored(answer, CHRF, segment.sentence_chrf, segment=segment))
        elif kind == "json":
            verdict = judge(answer.text, answer.scoring.required)
            found.append(
                Scored(answer, JSON, float(verdict.valid), verdict.reason, verdict.surrounded)
            )
        elif kind == "python":
            found.append(runner.score(answer))
        else:
            raise ValueError(f"no scoring of kind {kind!r}; known: python, json, translation")
    return found


class _Runner:
    """Runs programs, each different one once."""

    def __init__(self, sandbox: Sandbox | None) -> None:
        self._sandbox = sandbox
        self._ran: dict[str, Ran] = {}

    def score(self, answer: Answer) -> Scored:
        if self._sandbox is None:
            return Scored(answer, CODE, None, NOT_EXECUTED)
        source = program(answer.text, answer.conversation, answer.scoring)
        if source is None:
            return Scored(answer, CODE, 0.0, f"no code that defines {answer.scoring.entry_point}")
        if source not in self._ran:
            self._ran[source] = self._sandbox.run(source)
        ran = self._ran[source]
        if ran.outcome is Outcome.REFUSED:
            # A wall that was built before and is not now: no answer may be called wrong for it.
            raise PrerequisiteError(
                f"the sandbox for model-written code could not be built: {ran.detail}",
                "score again when the machine is less busy, or leave code unscored",
            )
        passed = ran.outcome is Outcome.PASSED
        detail = "" if passed else f"{ran.outcome}: {ran.detail}".removesuffix(": ")
        return Scored(answer, CODE, float(passed), detail)

"""The answers of a run that can be scored: recorded texts joined with their prompts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specbench.core.request import RequestKey
from specbench.core.suite import Prompt, Scoring
from specbench.core.trace import Trace
from specbench.errors import UsageError

_STOP_WORD = re.compile(r"<\|\w{1,40}\|>|<end_of_turn>|</s>\s*\Z")
"""Text of special tokens. ``</s>`` is also HTML and ends an answer only where nothing follows."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One recorded answer with what is needed to score it.

    Attributes:
        key: the request; pairs the answer with the same request of another arm.
        arm: the arm that gave it.
        text: the answer as recorded; may be empty or cut by the length limit.
        scoring: how it is scored.
        reference: a right answer; translations need one.
        conversation: what the user said up to this answer, one text per turn.
    """

    key: RequestKey
    arm: str
    text: str
    scoring: Scoring
    reference: str | None = None
    conversation: tuple[str, ...] = ()

    @property
    def item(self) -> str:
        """The prompt: its answers are correlated and stay together in a resample."""
        return f"{self.key.suite}/{self.key.item}"


def answers_of(traces: Sequence[Trace], prompts: Mapping[tuple[str, str], Prompt]) -> list[Answer]:
    """The answers that can be scored, in the order of the traces.

    ``Scoring`` and the reference belong to the last turn of a conversation; earlier turns are
    left out, and so are failed requests, prompts without scoring and translations without a
    reference. An answer cut by the length limit counts.

    Args:
        prompts: (suite, id of the prompt) -> prompt.

    Raises:
        UsageError: a trace whose prompt is not there.
    """
    found = []
    for trace in traces:
        key = trace.key
        prompt = prompts.get((key.suite, key.item))
        if prompt is None:
            raise UsageError(
                f"the run holds an answer to {key.suite}/{key.item}, which the suite does not have",
                "score the run with the version of the suite that its manifest names",
            )
        if not trace.ok or prompt.scoring is None or key.turn != len(prompt.turns) - 1:
            continue
        if prompt.scoring.kind == "translation" and not prompt.reference:
            continue
        found.append(
            Answer(
                key, trace.arm, trace.text, prompt.scoring, prompt.reference, tuple(prompt.turns)
            )
        )
    return found


def until_stop(text: str) -> str:
    """The text up to the earliest stop word; leading spaces stay (case G4)."""
    found = _STOP_WORD.search(text)
    return text if found is None else text[: found.start()]

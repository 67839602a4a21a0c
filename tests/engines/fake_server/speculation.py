"""How the table model's tokens are decoded: plainly, or drafted and verified in steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tests.engines.fake_server.table_model import END, START, Settings, TableModel, text_of


@dataclass(frozen=True, slots=True)
class Speculation:
    """Chain drafts of at most ``k`` tokens (Leviathan et al. 2023, algorithm 1).

    A draft token is accepted with probability min(1, target / (lenience * draft)); lenience below
    1 is lossy: what is rejected is still drawn from max(target - draft, 0).
    """

    draft: TableModel
    k: int
    lenience: float = 1.0


@dataclass(frozen=True, slots=True)
class Step:
    """One decode step: its new tokens, and how many were drafted and accepted.

    ``accepted`` may count draft tokens behind an end; ``tokens`` stop there.
    """

    tokens: tuple[int, ...]
    drafted: int = 0
    accepted: int = 0


@dataclass(frozen=True, slots=True)
class Spoken:
    """What was really generated for one request.

    Attributes:
        prompt: ids that the model saw.
        settings: what was really used.
        steps: the first holds the token of the prefill.
        finish: ``end``, ``stop`` (a stop string, named in ``stopped_by``) or ``length``.
    """

    prompt: tuple[int, ...]
    settings: Settings
    steps: tuple[Step, ...]
    finish: str
    stopped_by: str = ""

    @property
    def ids(self) -> tuple[int, ...]:
        """All output ids, the end token included."""
        return tuple(number for step in self.steps for number in step.tokens)

    @property
    def drafts(self) -> list[Step]:
        """Steps that verified a draft."""
        return [step for step in self.steps if step.drafted]


def speak(
    model: TableModel,
    prompt: Sequence[int],
    settings: Settings,
    random: np.random.Generator,
    speculation: Speculation | None = None,
) -> Spoken:
    """Generate one output."""
    last = prompt[-1] if prompt else START
    steps = [Step((_draw(model.law(last, settings), random),))]
    while not (why := _finish(steps, settings)):
        ids = [number for step in steps for number in step.tokens]
        room = settings.max_tokens - len(ids)
        if speculation is None:
            steps.append(Step((_draw(model.law(ids[-1], settings), random),)))
        else:
            steps.append(_step(model, speculation, ids[-1], room, settings, random))
        steps[-1] = _cut(steps, settings)
    finish, stopped_by = why
    return Spoken(tuple(prompt), settings, tuple(steps), finish, stopped_by)


def _step(
    model: TableModel,
    speculation: Speculation,
    last: int,
    room: int,
    settings: Settings,
    random: np.random.Generator,
) -> Step:
    drafts = [last]
    for _ in range(min(speculation.k, room - 1)):
        drafts.append(_draw(speculation.draft.law(drafts[-1], settings), random))
    accepted: list[int] = []
    for before, token in pairwise(drafts):
        target = model.law(before, settings)
        draft = speculation.draft.law(before, settings)
        if random.random() * speculation.lenience * draft[token] >= target[token]:
            left = np.maximum(target - draft, 0.0)
            fresh = _draw(left if left.sum() > 0 else target, random)
            return Step((*accepted, fresh), len(drafts) - 1, len(accepted))
        accepted.append(token)
    bonus = _draw(model.law(drafts[-1], settings), random)
    return Step((*accepted, bonus), len(drafts) - 1, len(accepted))


def _draw(weights: NDArray[np.float64], random: np.random.Generator) -> int:
    return int(random.choice(len(weights), p=weights / weights.sum()))


def _finish(steps: Sequence[Step], settings: Settings) -> tuple[str, str] | None:
    ids = [number for step in steps for number in step.tokens]
    if ids[-1] == END:
        return "end", ""
    text = text_of(ids)
    for string in settings.stop:
        if string in text:
            return "stop", string
    return ("length", "") if len(ids) >= settings.max_tokens else None


def _cut(steps: Sequence[Step], settings: Settings) -> Step:
    """The last step without the tokens behind an end or a completed stop string."""
    last = steps[-1]
    for count in range(1, len(last.tokens)):
        shorter = Step(last.tokens[:count], last.drafted, last.accepted)
        finish = _finish([*steps[:-1], shorter], settings)
        if finish is not None and finish[0] != "length":
            return shorter
    return last

"""The stages before the loop: prompts, answers, vocabulary, captured states. All can be resumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from specbench.models.load import LoadedModel
from specbench.models.opened import OpenedTarget
from specbench.train.capture.capture import Wanted, capture
from specbench.train.capture.corpus import Corpus
from specbench.train.data.answers import answer
from specbench.train.data.asked import Answered
from specbench.train.data.folder import DataFolder, data_fingerprint
from specbench.train.data.prompts import collect
from specbench.train.data.target_answers import TargetAnswers
from specbench.train.job.folder import JobFolder
from specbench.train.job.methods import Start
from specbench.train.job.split import split
from specbench.train.job.vocabulary import count_tokens, frequent_ids
from specbench.train.recipe.methods import PARALLEL
from specbench.train.recipe.schema import Recipe

Tell = Callable[[str, int, int], None]
"""Progress: what is being made, how much of it is there, how much there will be."""


class Inference:
    """The target as it runs at inference, opened when it is first needed.

    Args:
        recipe: names it.
        note: hears that it is being loaded.
    """

    def __init__(self, recipe: Recipe, note: Callable[[str], None]) -> None:
        self._recipe, self._note = recipe, note

    @cached_property
    def answers(self) -> TargetAnswers:
        """What writes prompts and answers them."""
        self._note(f"loading {self._recipe.target.model}")
        return TargetAnswers(target_settings(self._recipe))

    def opened(self) -> OpenedTarget:
        """The target itself, free for others to run."""
        return self.answers.engine.lend()


def target_settings(recipe: Recipe, folder: Path | None = None) -> Mapping[str, Any]:
    """The recipe's target as engines take it; ``folder`` is a tuned one in its place."""
    settings = {**recipe.target.model_dump(exclude_none=True), "prepack": True}
    if folder is not None:
        settings["model"] = str(folder)
        settings.pop("revision", None)
    return settings


@dataclass(frozen=True, slots=True)
class Prepared:
    """Answers on both sides of the split, and the reasons why others are on neither.

    Attributes:
        train: what is trained on.
        held: what is kept back.
        validated: of ``held``, what is drafted along.
        left_out: reason -> how many prompts or answers.
    """

    train: list[Answered]
    held: list[Answered]
    validated: list[Answered]
    left_out: dict[str, int]


def prepare(recipe: Recipe, folder: JobFolder, target: Inference, tell: Tell) -> Prepared:
    """Prompts and answers; those that are there already are read.

    Raises:
        UsageError: nothing is left, or only one side of the split.
        PrerequisiteError, SpecbenchError: see ``data.prompts.collect`` and ``data.answers.answer``.
    """
    collected = collect(
        recipe.data,
        folder.data,
        lambda: target.answers,
        lambda name, done, total: tell(f"prompts {name}", done, total),
        recipe.validate_.suites,
    )
    answered = answer(
        recipe.data,
        collected.prompts,
        folder.data,
        lambda: target.answers,
        lambda done, total, tokens: tell("answers", done, total),
    )
    train, held = split(answered.kept, recipe.data.held_out, str(folder.data))
    left_out = Counter(collected.left_out) + Counter(answered.left_out)
    return Prepared(train, held, held[: recipe.validate_.conversations], dict(left_out))


def claim(recipe: Recipe, folder: JobFolder, target: Inference) -> None:
    """See that the data folder is of this target and these settings, or make it so.

    Raises:
        UsageError: it is of others.
    """
    made = data_fingerprint(target.answers.facts(), recipe.data)
    DataFolder(folder.data).claim(made)


def draft_ids(recipe: Recipe, prepared: Prepared, target: LoadedModel) -> list[int] | None:
    """Tokens of a new head, by how often the target says them in what is trained on.

    None where a head has all of them, or is not new.
    """
    size = recipe.head.draft_vocabulary
    rows = target.model.get_input_embeddings().num_embeddings
    if size is None or size >= rows:
        return None
    return frequent_ids(count_tokens(prepared.train), size, target.eos_ids, rows)


def captured(
    recipe: Recipe,
    folder: JobFolder,
    prepared: Prepared,
    start: Start,
    opened: Callable[[], OpenedTarget],
    tell: Tell,
    rest: Callable[[], None],
) -> Corpus:
    """Hidden states of all answers that are trained on, checked against their hashes.

    Those of parallel heads' held-out answers too: which candidates are right at which rank is
    counted along them.

    Args:
        rest: see ``capture.capture``.

    Raises:
        UsageError, PrerequisiteError, SpecbenchError: see ``capture.capture``.
    """
    held: Sequence[Answered] = prepared.validated if recipe.method in PARALLEL else ()
    dtype = getattr(torch, recipe.capture.dtype)
    place, record = capture(
        opened,
        [*prepared.train, *held],
        Wanted(start.target.weight_hash, start.taps, dtype),
        folder.captures,
        lambda done, total: tell("captured tokens", done, total),
        rest,
    )
    return Corpus(place, record, start.taps)

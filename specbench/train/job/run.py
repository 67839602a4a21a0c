"""`specbench train`: from a recipe to a head in a published layout, in stages that go on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from specbench.errors import PrerequisiteError, SpecbenchError
from specbench.models.checkpoint import require_device, require_torch
from specbench.models.load import LoadedModel
from specbench.models.opened import OpenedTarget
from specbench.train.capture.corpus import Conversation, Corpus
from specbench.train.job.check import check
from specbench.train.job.counted import count
from specbench.train.job.finish import accuracies, finish
from specbench.train.job.folder import JobFolder
from specbench.train.job.heads import writer
from specbench.train.job.levelled import levelled
from specbench.train.job.listeners import SILENT, Listeners, Outcome
from specbench.train.job.made_up import made_up
from specbench.train.job.methods import Start, load_target, method_of, start_of
from specbench.train.job.optimising import K, longest, optimising
from specbench.train.job.record import data_facts, loop_facts, target_facts
from specbench.train.job.stages import (
    Inference,
    Prepared,
    captured,
    claim,
    draft_ids,
    prepare,
)
from specbench.train.job.tuned import TUNES, open_tuned
from specbench.train.job.validate import HeldOut, figures
from specbench.train.loop import checkpoint
from specbench.train.loop.checkpoint import LAST, Standing
from specbench.train.loop.curves import draw, to_look_at
from specbench.train.loop.order import batches_per_epoch
from specbench.train.loop.ranks import Ranks, device_of, joined
from specbench.train.loop.run import Training
from specbench.train.loop.settings import Hooks
from specbench.train.loop.step import BrokenLossError
from specbench.train.methods.method import Method
from specbench.train.recipe.methods import COUNTED, DRAFTERS
from specbench.train.recipe.schema import Recipe

LEAVE, GO_ON = range(2)
"""What the first process says when the data is there, or is not going to be."""


def train(recipe: Recipe, text: str, folder: JobFolder, listeners: Listeners) -> Outcome | None:
    """Run a recipe, or go on where an earlier call stopped.

    Args:
        recipe: checked.
        text: of its file.
        folder: of the training.
        listeners: see there.

    Returns:
        The outcome; None in all processes but the first, where several train together.

    Raises:
        UsageError: a folder of another recipe or of other data; data of which nothing is left.
        PrerequisiteError: a model, package or device is missing, or a head does not fit.
        SpecbenchError: a loss that is no number, a full disk.
    """
    name = device_of(recipe.target.device)
    here = recipe.target.model_copy(update={"device": name})
    own = recipe.model_copy(update={"target": here})
    with joined(require_device(require_torch(), name)) as ranks:
        if ranks.first:
            return _Job(own, folder, listeners, ranks).lead(text, recipe)
        _Job(own, folder, SILENT, ranks).follow()
        return None


class _TimeUp(Exception):
    """This call's time is up between two pieces of a stage."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """Everything that the loop needs."""

    prepared: Prepared
    start: Start
    corpus: Corpus
    conversations: list[Conversation]


class _Job:
    """One process's part in a training."""

    def __init__(
        self, recipe: Recipe, folder: JobFolder, listeners: Listeners, ranks: Ranks
    ) -> None:
        self._recipe, self._folder = recipe, folder
        self._listeners, self._ranks = listeners, ranks
        self._inference = Inference(recipe, listeners.note)

    def lead(self, text: str, passed: Recipe) -> Outcome:
        """The first process: makes the data, then trains with the others, then exports.

        Args:
            text, passed: the recipe as it was passed.
        """
        with ExitStack() as stack:
            ready = None
            try:
                check(self._recipe)
                stack.enter_context(self._folder.alone())
                self._folder.begin(text, passed)
                if self._folder.head.exists():
                    return Outcome(self._ended(), True)
                if self._recipe.method in COUNTED:
                    return self._count()
                ready = self._first()
            except _TimeUp:
                return Outcome(self._stands(), False)
            finally:
                self._ranks.told(LEAVE if ready is None else GO_ON)
            return self._train(ready)

    def follow(self) -> None:
        """Another process: comes when the data is there, and trains with the first."""
        if self._ranks.told(LEAVE) == GO_ON:
            target = load_target(self._recipe)
            self._training(self._ready(target, lambda name, done, total: None))[0].run(
                Hooks(lambda method: {})
            )

    def _count(self) -> Outcome:
        """All of a method that trains nothing."""
        recipe, folder, tell = self._recipe, self._folder, self._listeners.stage
        claim(recipe, folder, self._inference)
        prepared = prepare(recipe, folder, self._inference, self._tell)
        opened = self._inference.opened
        table, standing = count(recipe, folder, prepared, load_target(recipe), opened)
        k = recipe.validate_.k or K
        finish(recipe, folder, table, self._inference, k, tell, lambda: [])
        return Outcome(standing, True)

    def _stands(self) -> Standing:
        found = checkpoint.read(self._folder.checkpoints / LAST)
        return Standing() if found is None else found[0]

    def _ended(self) -> Standing:
        """Of what is exported: what was counted has no checkpoint, and others may be removed."""
        stands = self._stands()
        if stands.stopped:
            return stands
        length = self._folder.noted().get("loop", {}).get("held_out_accept_length")
        return replace(stands, best=length, stopped="nothing is left to do")

    def _first(self) -> _Ready:
        recipe, folder = self._recipe, self._folder
        target = load_target(recipe)
        if not (folder.checkpoints / LAST).exists():
            self._rehearse(target)
        claim(recipe, folder, self._inference)
        ready = self._ready(target, self._tell)
        folder.note(
            recipe=recipe.name,
            method=recipe.method,
            target=target_facts(target),
            data=data_facts(ready.prepared, ready.start.draft_ids),
        )
        return ready

    def _rehearse(self, target: LoadedModel) -> None:
        """Make a network, run it once and write it, before hours go into its data."""
        size = self._recipe.head.draft_vocabulary
        rows = target.model.get_input_embeddings().num_embeddings
        ids = None if size is None or size >= rows else range(size)
        start, scratch = start_of(self._recipe, target, ids), self._folder.scratch
        method = method_of(self._recipe, start, 1)
        with torch.no_grad():
            method.loss(made_up(self._recipe, start), 0)
        if start.head is None or self._recipe.method in TUNES:
            return
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            writer(self._recipe, start.head, target)(start.head, scratch)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _tell(self, name: str, done: int, total: int) -> None:
        self._listeners.stage(name, done, total)
        self._rest()

    def _rest(self) -> None:
        """Stop between two pieces of a stage; what is finished is on disk."""
        if self._listeners.over():
            raise _TimeUp

    def _ready(self, target: LoadedModel, tell: Callable[[str, int, int], None]) -> _Ready:
        recipe, folder = self._recipe, self._folder
        prepared = prepare(recipe, folder, self._inference, tell)
        start = start_of(recipe, target, draft_ids(recipe, prepared, target))
        opened, stage = self._inference.opened, self._listeners.stage
        corpus = captured(recipe, folder, prepared, start, opened, stage, self._rest)
        conversations = corpus.chosen({one.id for one in prepared.train})
        if start.head is not None and recipe.head.start is None:
            head = levelled(start.head, corpus, conversations)
            start = replace(start, head=head)
        return _Ready(prepared, start, corpus, conversations)

    def _training(self, ready: _Ready) -> tuple[Training, Method]:
        recipe, how = self._recipe, optimising(self._recipe)
        conversations = ready.conversations
        method = method_of(recipe, ready.start, batches_per_epoch(conversations, how))
        folder = self._folder
        places = folder.checkpoints, folder.curves
        return Training(method, ready.corpus, conversations, how, *places, self._ranks), method

    def _train(self, ready: _Ready) -> Outcome:
        recipe, folder, told = self._recipe, self._folder, self._listeners
        training, method = self._training(ready)
        k = longest(recipe, ready.start)
        options = recipe.validate_.options
        held = HeldOut(
            self._verifier, ready.prepared.validated, DRAFTERS[recipe.method], k, options
        )
        hooks = Hooks(
            lambda method: figures(held.of(method, folder.scratch)),
            told.moved,
            told.validated,
            told.over,
        )
        try:
            standing = training.run(hooks)
        except BrokenLossError as error:
            folder.note(failed={"step": error.step, "why": error.message})
            # A full disk must not hide the loss.
            with suppress(SpecbenchError):
                self._draw(training)
            told.note(f"curves: {to_look_at(folder.picture, folder.curves)}")
            raise
        folder.note(failed=None, loop=loop_facts(standing))
        self._draw(training)
        if not standing.stopped:
            return Outcome(standing, False)
        training.load_best()
        told.note("drafting along the suites' dev prompts")
        tokens = recipe.train.batch_tokens
        finish(
            recipe,
            folder,
            method,
            self._inference,
            k,
            told.stage,
            lambda: accuracies(method, ready.corpus, ready.prepared, tokens, self._ranks.device),
        )
        return Outcome(standing, True)

    def _verifier(self, network: Path) -> OpenedTarget:
        """What an exported network drafts for: the target, or the one that was tuned with it."""
        if self._recipe.method in TUNES:
            return open_tuned(self._recipe, network)
        return self._inference.opened()

    def _draw(self, training: Training) -> None:
        title = self._recipe.title or self._recipe.name
        try:
            draw(training.curves.rows, self._folder.picture, title)
        except PrerequisiteError as error:
            self._listeners.note(str(error))

"""The training loop: one step after the other until the end, the clock, or no more progress."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from specbench.errors import PrerequisiteError, SpecbenchError, UsageError
from specbench.train.capture.corpus import Conversation, Corpus
from specbench.train.loop import checkpoint
from specbench.train.loop.checkpoint import BEST, LAST, Standing
from specbench.train.loop.curves import Curves
from specbench.train.loop.means import Means
from specbench.train.loop.order import digest, groups, steps_of
from specbench.train.loop.ranks import Ranks
from specbench.train.loop.settings import Hooks, Optimising
from specbench.train.loop.step import BrokenLossError, Stepper
from specbench.train.methods.method import Method

LOG_EVERY = 10
"""Steps between two rows of the curves."""
SAVE_SHARE = 0.05
"""Share of the time that writing checkpoints may take."""
GO_ON, SAVE, STOP = range(3)
"""What the first process says behind a step."""


class Training:
    """A method on a corpus. It goes on from the folder's last checkpoint, if there is one.

    Args:
        method: what is trained.
        corpus: where conversations are read.
        conversations: those to train on.
        how: see there.
        folder: of the checkpoints.
        curves: the file of the curves.
        ranks: this process among those that train.

    Raises:
        UsageError: no conversations, or a training on others, or by another number of processes.
        PrerequisiteError: a checkpoint that is none, or not that of the first process.
    """

    def __init__(
        self,
        method: Method,
        corpus: Corpus,
        conversations: Sequence[Conversation],
        how: Optimising,
        folder: Path,
        curves: Path,
        ranks: Ranks,
    ) -> None:
        if not conversations:
            raise UsageError("there are no conversations to train on", "ask for more prompts")
        self._method, self._corpus, self._how = method, corpus, how
        self._conversations = conversations
        self._folder, self._ranks = folder, ranks
        self.total = steps_of(conversations, how, ranks.size)
        self.standing = Standing(
            total=self.total,
            processes=ranks.size,
            conversations=len(conversations),
            names=digest(conversations),
        )
        found = checkpoint.read(folder / LAST)
        if found is not None:
            _require_same(found[0], self.standing, folder)
            self.standing, tensors = found
            method.load(checkpoint.weights(tensors))
        if ranks.told(self.standing.step) != self.standing.step:
            # They would wait for each other for ever.
            raise PrerequisiteError(
                f"process {ranks.rank} finds another checkpoint in {folder} than the first one",
                "all processes must see the same folder",
            )
        self._stepper = Stepper(method, how, ranks, self.total)
        if found is not None:
            checkpoint.restore_moments(self._stepper.optimisers, method.module, tensors)
        self._means = Means(self.standing.sums)
        self._saved = None if found is None else self.standing.step
        # Without a checkpoint even the row of step 0 is measured again.
        self.curves = Curves(curves, -1 if found is None else self.standing.step)
        self._began, self._before = time.monotonic(), self.standing.seconds
        self._next_save = self._began + how.save_seconds

    def run(self, hooks: Hooks) -> Standing:
        """Train on, at least one step; returns where it stands when it ends or when time is up.

        Raises:
            BrokenLossError: a loss that is no number; the last good checkpoint is kept.
            SpecbenchError: the disk is full; the last checkpoint is kept.
        """
        if self.standing.stopped:
            return self.standing
        if self.standing.step == 0 and self.standing.best is None:
            # How it starts is worth knowing, and whether it can be exported and drafted with.
            self._validate(hooks)
        for group in groups(self._conversations, self._how, self._ranks, self.standing.step):
            try:
                self._step(group, hooks)
            except BrokenLossError:
                self._show_last()
                raise
            if self._validates(self.standing.step):
                self._validate(hooks)
            if self.standing.stopped:
                break
            said = self._ranks.told(self._says(hooks))
            if said != GO_ON:
                self._save()
            if said == STOP:
                break
        return self.standing

    def _step(self, group: Sequence[Sequence[Conversation]], hooks: Hooks) -> None:
        loaded = [self._corpus.load(batch).to(self._ranks.device) for batch in group]
        figures = self._stepper.take(loaded, self.standing.step, self._saved or 0)
        step, tokens = self.standing.step + 1, int(figures.pop("tokens"))
        self._means.add(figures)
        hooks.moved(step, self.total, figures)
        if step % LOG_EVERY == 0 or step == self.total:
            self.curves.add({"step": step, **self._means.take()})
        self.standing = replace(
            self.standing,
            step=step,
            seconds=self._before + time.monotonic() - self._began,
            tokens=self.standing.tokens + tokens,
            sums=dict(self._means.sums),
        )

    def _show_last(self) -> None:
        """Put the steps before a broken one into the curves, where one looks for what happened.

        Rows behind the checkpoint are dropped when it goes on. Others would be there twice, and
        are not written.
        """
        if self._means.sums:
            self.curves.add({"step": self.standing.step, **self._means.take()})
        if self._ranks.first and self._saved != self.standing.step:
            # A full disk must not hide the loss.
            with suppress(SpecbenchError):
                self.curves.write()

    def _says(self, hooks: Hooks) -> int:
        """What is next. Clocks differ: the first process's counts."""
        if not self._ranks.first:
            return GO_ON
        if hooks.over():
            return STOP
        return SAVE if time.monotonic() >= self._next_save else GO_ON

    def _validates(self, step: int) -> bool:
        """Whether a step is one of the evenly spaced ones."""
        count = self._how.validations
        marks = {round(self.total * (i + 1) / count) for i in range(count)} | {self.total}
        return step in marks

    def _validate(self, hooks: Hooks) -> None:
        """Look how far it is; keep what is best, and stop where nothing gets better."""
        if self._ranks.first:
            figures = dict(hooks.validate(self._method))
            self.curves.add({"step": self.standing.step, **figures})
            hooks.validated(self.standing.step, figures)
            self._judge(figures["accept_length"])
        over = self._ranks.told(int(bool(self.standing.stopped)))
        if over and not self.standing.stopped:
            self.standing = replace(self.standing, stopped="the first process stopped")
        self._save()

    def _judge(self, length: float) -> None:
        old = self.standing
        better = old.best is None or length > old.best
        new = replace(
            old,
            best=length if better else old.best,
            best_step=old.step if better else old.best_step,
            since_best=0 if better else old.since_best + 1,
        )
        if better:
            checkpoint.save_best(self._folder, new, self._method.state())
        if old.step >= self.total:
            new = replace(new, stopped=f"all {self.total} steps are done")
        elif self._how.patience and new.since_best >= self._how.patience:
            new = replace(
                new,
                stopped=f"{new.since_best} validations were no better than step {new.best_step}",
            )
        self.standing = new

    def _save(self) -> None:
        if self._saved == self.standing.step:
            return
        self._saved = self.standing.step
        if not self._ranks.first:
            return
        began = time.monotonic()
        # Curves first: what they are ahead is dropped by whoever goes on from the older checkpoint.
        self.curves.write()
        checkpoint.save(
            self._folder,
            self.standing,
            self._method.state(),
            self._method.module,
            self._stepper.optimisers,
        )
        took = time.monotonic() - began
        self._next_save = time.monotonic() + max(self._how.save_seconds, took / SAVE_SHARE)

    def load_best(self) -> None:
        """Put the best weights in place of the last ones."""
        found = checkpoint.read(self._folder / BEST)
        if found is not None:
            self._method.load(checkpoint.weights(found[1]))


def _require_same(there: Standing, here: Standing, folder: Path) -> None:
    """Raise UsageError where a checkpoint is of a training that goes another way."""
    _require_number("processes", there.processes, here.processes, folder)
    if there.names != here.names:
        counts = f"{there.conversations} then, {here.conversations} now"
        raise UsageError(
            f"{folder} is of a training on other conversations: {counts}; prompts came or went",
            "train in another folder with --out; the data can be shared with --data",
        )
    _require_number("steps", there.total, here.total, folder)


def _require_number(what: str, old: int, new: int, folder: Path) -> None:
    if old != new:
        raise UsageError(
            f"{folder} is of a training of {old} {what}, and now there are {new}",
            "start it as before, or name another folder with --out",
        )

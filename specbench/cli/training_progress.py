"""Progress of a training on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Self

import click

from specbench.cli.bar import Bar

SECONDS_APART = 30.0
"""Between two lines where there is no terminal."""


class TrainingProgress(Bar):
    """Shows which stage a training is in, how far it is, and how long that may still take."""

    def __init__(self) -> None:
        super().__init__()
        self._task = self.bar.add_task("", visible=False)
        self._name = ""
        self._from = (0, 0.0)
        self._told = 0.0

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def note(self, text: str) -> None:
        """A line of its own."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def stage(self, name: str, done: int, total: int) -> None:
        """So much of a stage is done."""
        self._show(name, done, total, "")

    def moved(self, step: int, total: int, figures: Mapping[str, float]) -> None:
        """A step of the loop is done."""
        alpha = figures.get("alpha_1")
        accepted = "" if alpha is None else f", accepted {alpha:.0%}"
        self._show("training", step, total, f"loss {figures['loss']:.3f}{accepted}")

    def validated(self, step: int, figures: Mapping[str, float]) -> None:
        """Held-out answers were drafted along."""
        lengths = [
            f"T={name.removeprefix('accept_length_t')}: {value:.2f}"
            for name, value in figures.items()
            if name.startswith("accept_length_t")
        ]
        self.note(
            f"step {step}: accept length {figures['accept_length']:.2f} ({', '.join(lengths)})"
        )

    def _show(self, name: str, done: int, total: int, more: str) -> None:
        now, text = time.monotonic(), f"{name} {more}".strip()
        if name != self._name:
            self._name, self._from, self._told = name, (done, now), now - SECONDS_APART
            self.bar.reset(self._task, total=total, completed=done, visible=True, description=text)
        self.bar.update(self._task, completed=done, total=total, description=text)
        if self.console.is_terminal or (now - self._told < SECONDS_APART and done < total):
            return
        self._told = now
        first, since = self._from
        left = ""
        if done > first and done < total:
            left = f", about {_minutes((now - since) / (done - first) * (total - done))} left"
        click.echo(f"{name}: {done} of {total}{left}{'; ' + more if more else ''}", err=True)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"

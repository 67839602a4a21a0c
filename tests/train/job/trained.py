"""Recipes of tiny trainings on the spelling target, and calls of ``train`` that are heard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specbench.train.job.folder import JobFolder
from specbench.train.job.listeners import Listeners, Outcome
from specbench.train.job.run import train
from specbench.train.recipe.methods import COUNTED
from specbench.train.recipe.schema import Recipe, recipe_of
from tests.train.job.spelling import write_prompts, write_target

TEXT = 'name = "spelling"'


@dataclass
class Heard:
    """What a call was told, and when its time is up: by its own count of askings."""

    notes: list[str] = field(default_factory=list)
    stages: list[tuple[str, int, int]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    lengths: list[tuple[int, float]] = field(default_factory=list)
    over: Callable[[], bool] = lambda: False

    def listeners(self) -> Listeners:
        return Listeners(
            self.notes.append,
            lambda *stage: self.stages.append(stage),
            lambda step, total, figures: self.losses.append(figures["loss"]),
            lambda step, figures: self.lengths.append((step, figures["accept_length"])),
            self.over,
        )


@dataclass
class Bench:
    """A target and its prompts on disk, below ``root``."""

    root: Path

    @classmethod
    def build(cls, root: Path) -> Bench:
        write_target(root / "target")
        write_prompts(root / "prompts.jsonl")
        write_prompts(root / "suite.jsonl", 12, 7)
        return cls(root)

    def recipe(self, method: str, **tables: Any) -> Recipe:
        """A small recipe; keys of tables are added to its own."""
        prompts = {"source": "suite", "name": "p", "suite": str(self.root / "prompts.jsonl")}
        given: dict[str, Any] = {
            "schema_version": 1,
            "name": "spelling",
            "method": method,
            "target": {"model": str(self.root / "target")},
            "data": {
                "prompts": [prompts],
                "temperatures": [0.0, 0.7],
                "max_new_tokens": 40,
                "held_out": 0.2,
                "batch": 16,
            },
            "train": {
                "epochs": 14,
                "learning_rate": 0.015,
                "batch_tokens": 256,
                "validations": 2,
            },
            "validate": {"suites": [str(self.root / "suite.jsonl")]},
        }
        if method in COUNTED:
            del given["train"]
        for name, table in tables.items():
            whole = isinstance(table, dict)
            given[name] = {**given.get(name, {}), **table} if whole else table
        return recipe_of(given, "recipe.toml")

    def folder(self, name: str, data: str = "data") -> JobFolder:
        return JobFolder(self.root / name, self.root / data)

    def train(
        self, recipe: Recipe, folder: JobFolder, heard: Heard | None = None
    ) -> Outcome | None:
        return train(recipe, TEXT, folder, (heard or Heard()).listeners())

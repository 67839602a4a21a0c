"""A target that was tuned together with its heads, opened from the folder that holds both."""

from __future__ import annotations

from pathlib import Path

from specbench.models.opened import OpenedTarget, open_target
from specbench.train.data.target_answers import TargetAnswers
from specbench.train.job.stages import target_settings
from specbench.train.recipe.schema import Recipe

TUNES = frozenset({"medusa2"})
"""Methods whose target is tuned."""


def open_tuned(recipe: Recipe, folder: Path) -> OpenedTarget:
    """The target in a folder, as the recipe's own is run. Errors as ``open_target``."""
    return open_target(target_settings(recipe, folder), 1)


def answers_of_tuned(recipe: Recipe, folder: Path) -> TargetAnswers:
    """What answers in its name. Errors as ``TargetAnswers``."""
    return TargetAnswers(target_settings(recipe, folder))

"""What can be found out before anything is loaded, and would otherwise be found out hours later."""

from __future__ import annotations

from typing import Any

from specbench import catalog
from specbench.core.request import GREEDY_BELOW
from specbench.errors import UsageError
from specbench.models.heads.write import layouts_of
from specbench.models.locate import locate
from specbench.suites.loader import load_suite, select
from specbench.train.recipe.methods import DRAFTERS
from specbench.train.recipe.schema import Recipe


def check(recipe: Recipe) -> None:
    """Look for the models, suites, layouts and options that a recipe names.

    Raises:
        UsageError, PrerequisiteError: one of them is not there, or cannot be had.
    """
    for name in recipe.validate_.suites:
        select(load_suite(name), split="dev", limit=recipe.validate_.limit)
    _check_options(recipe)
    locate(recipe.target.model, revision=recipe.target.revision)
    if recipe.head.start is not None:
        locate(recipe.head.start, needs_tokenizer=recipe.family == "model")
    layout = recipe.head.layout
    if layout is not None and layout not in (known := layouts_of(recipe.family)):
        raise UsageError(
            f"head.layout = {layout!r}: {recipe.family} heads are not written so",
            catalog.nearest(layout, known),
        )


def _check_options(recipe: Recipe) -> None:
    """Options of the drafter that validates."""
    name, options = DRAFTERS[recipe.method], recipe.validate_.options
    factory: Any = catalog.resolve("drafters", name)
    info = factory.info
    known = [option for option in info.options if option not in ("model", "revision")]
    for option in options:
        if option not in known:
            raise UsageError(
                f"validate.options.{option}: drafter {name} takes no such option here",
                catalog.nearest(option, known),
            )
    facts = info.facts(options)
    warm = [one for one in recipe.data.temperatures if one >= GREEDY_BELOW]
    if warm and facts.law == "dense" and facts.tree:
        raise UsageError(
            f"validate.options = {options!r}: trees that are drawn cannot be judged along answers "
            f"at temperature {warm[0]:g}",
            'write tree = "chain" or sampling = "greedy", or data.temperatures = [0.0]',
        )

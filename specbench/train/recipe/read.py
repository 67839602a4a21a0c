"""From the file of a recipe to its keys; ``include`` lets recipes share tables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specbench.errors import UsageError
from specbench.train.recipe.methods import over
from specbench.train.recipe.schema import Recipe, recipe_of

INCLUDE = "include"


def read_recipe(path: Path) -> Recipe:
    """Read and check a recipe.

    ``include = "data.toml"`` takes from a file beside it what the recipe leaves out, table by
    table; lists are taken or left as a whole.

    Raises:
        UsageError: no such file, no TOML, or a wrong, missing, unknown or unread key.
    """
    data = _toml(path)
    included = data.pop(INCLUDE, None)
    if included is None:
        return recipe_of(data, str(path))
    if not isinstance(included, str) or Path(included).name != included:
        raise UsageError(
            f"{path}: {INCLUDE} = {included!r}: not the name of a file beside the recipe",
            f'write {INCLUDE} = "data.toml"',
        )
    other = path.parent / included
    shared = _toml(other)
    if INCLUDE in shared:
        raise UsageError(
            f"{other}: {INCLUDE}: a file that is included cannot include another",
            "put both into one file",
        )
    return recipe_of(over(shared, data), f"{path} with {included}")


def _toml(path: Path) -> dict[str, Any]:
    try:
        found: Mapping[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"no recipe {path}", "check the path") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "name a file") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(
            f"{path}: {error}", "a recipe is a TOML file, see docs/training.md"
        ) from error
    return dict(found)

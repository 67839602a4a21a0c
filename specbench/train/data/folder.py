"""What made the data of a folder, so that nothing else is mixed into it later."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from specbench.errors import PrerequisiteError, UsageError
from specbench.results.lock import written_alone
from specbench.results.schema import strict_json
from specbench.results.store import write_atomic
from specbench.train.recipe.data import Data, SuitePrompts

FILE = "data.json"

SETTINGS = frozenset({"seed", "temperatures", "max_prompt_tokens", "max_new_tokens"})
"""Keys of [data] that answers follow from."""
ADDED = {"name", "count"}
"""Keys of [[data.prompts]] that only say how many prompts there are, and whose."""
SHOWN = 80
"""Characters of a list that a message shows whole; of longer ones it shows what differs."""


class Made(BaseModel):
    """The content of ``data.json``."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    schema_version: Literal[1]
    target: dict[str, str]
    data: dict[str, Any]
    prompts: dict[str, dict[str, Any]]


def data_fingerprint(target: Mapping[str, str], data: Data) -> Made:
    """Everything that the data under an id follow from.

    How many prompts and answers there are is no part of it: more are added to those that are
    there. Nor is what a suite holds: ``Sources`` compares its prompts one by one.

    Args:
        target: from ``TargetAnswers.facts``.
        data: the recipe's ``[data]`` table.
    """
    prompts = {}
    for source in data.prompts:
        # Prompts of a suite keep their ids and words wherever it lies and whatever is selected.
        free = ADDED | {"suite", "split"} if isinstance(source, SuitePrompts) else ADDED
        prompts[source.name] = source.model_dump(mode="json", exclude=free)
    dealt = data.model_dump(mode="json", include=set(SETTINGS))
    return Made(schema_version=1, target=dict(target), data=dealt, prompts=prompts)


class DataFolder:
    """A folder of prompts and answers that were all made in the same way.

    Args:
        path: made where it is not.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / FILE

    def claim(self, made: Made) -> None:
        """Write ``data.json`` on first use; refuse to go on under other settings afterwards.

        Sources that are not recorded yet are added. The target's name is recorded and not
        compared: the same weights may lie elsewhere.

        Raises:
            UsageError: another target, template or setting; data of unknown origin; a folder that
                cannot be written, or is being claimed by another process.
            PrerequisiteError: a damaged ``data.json``.
        """
        if self._with(made) is None:
            return
        try:
            with written_alone(self.file):
                # Again: between the look and the lock another call may have added its sources.
                both = self._with(made)
                if both is not None:
                    write_atomic(self.file, strict_json(both.model_dump(mode="json")))
        except OSError as error:
            raise UsageError(
                f"cannot write {self.file}: {error.strerror}",
                "make room, or name another data folder",
            ) from error

    def _with(self, made: Made) -> Made | None:
        """What is recorded with what is new in ``made``; None where nothing is."""
        known = self._recorded()
        if known is None:
            return made
        self._refuse_other(known, made)
        prompts = {**known.prompts, **made.prompts}
        return None if prompts == known.prompts else known.model_copy(update={"prompts": prompts})

    def _recorded(self) -> Made | None:
        if self.file.is_file():
            try:
                return Made.model_validate_json(self.file.read_bytes())
            except (OSError, ValidationError) as error:
                raise PrerequisiteError(
                    f"{self.file}: damaged, or of another version of specbench",
                    "restore the file, or name another data folder",
                ) from error
        unknown = sorted(path.name for path in self.path.glob("*.jsonl") if path.stat().st_size)
        if unknown:
            raise UsageError(
                f"{self.path} holds {' and '.join(unknown)} but no {FILE}: what made them is not "
                "known",
                "name another data folder, or remove them",
            )
        return None

    def _refuse_other(self, known: Made, made: Made) -> None:
        there, here = (
            {
                "target": {key: value for key, value in one.target.items() if key != "name"},
                "data": one.data,
                "prompts": {
                    name: one.prompts[name] for name in known.prompts.keys() & made.prompts
                },
            }
            for one in (known, made)
        )
        first = next(_differences("", there, here), None)
        if first is not None:
            key, old, new = first
            raise UsageError(
                f"{self.path} holds data made by {known.target.get('name')} with {key} = {old}, "
                f"and now {key} = {new} is asked for",
                "name another data folder, or set the key back",
            )


def _differences(key: str, there: Any, here: Any) -> Iterator[tuple[str, str, str]]:
    """Key and both values, as JSON, of everything that differs."""
    old, new = (json.dumps(value, ensure_ascii=False) for value in (there, here))
    if isinstance(there, dict) and isinstance(here, dict):
        for name in sorted(there.keys() | here.keys()):
            yield from _differences(f"{key}.{name}".lstrip("."), there.get(name), here.get(name))
    elif isinstance(there, list) and isinstance(here, list) and len(old + new) > SHOWN:
        for place in range(max(len(there), len(here))):
            pair = [one[place] if place < len(one) else None for one in (there, here)]
            yield from _differences(f"{key}[{place}]", *pair)
    elif there != here:
        yield key, old, new

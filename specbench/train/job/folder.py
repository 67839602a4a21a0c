"""The folder of a training: what is in it, and whether this recipe may go on there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError, UsageError
from specbench.results.lock import lock
from specbench.train.capture.disk import writing
from specbench.train.data.folder import SETTINGS
from specbench.train.loop.checkpoint import LAST
from specbench.train.recipe.schema import Recipe

FREE = frozenset({"title", "data.batch", "train.patience", "train.validations", "validate.limit"})
"""Keys that may change while a training goes on: they change no weight."""
BEHIND_A_FAILURE = frozenset(
    {
        "train.learning_rate",
        "train.backbone_learning_rate",
        "train.clip_norm",
        "train.clip_value",
        "train.precision",
    }
)
"""Keys that may change too once a loss was no number; the record says so."""
FAILED, CHANGES = "failed", "changes"
"""Facts of the record: the step whose loss was no number, and what was changed behind one."""
SHOWN, BEFORE = 80, 20
"""Characters of a value that a message shows, and how many of them before two begin to differ."""
AGAIN = "remove this file and type the same command again"
"""What to do about a file that is damaged; its folder may hold all data."""


@dataclass(frozen=True, slots=True)
class JobFolder:
    """Files of one training.

    Attributes:
        path: the folder.
        data: where prompts, answers and captured states lie; other trainings may share it.
    """

    path: Path
    data: Path

    @property
    def recipe(self) -> Path:
        """The recipe as it was passed."""
        return self.path / "recipe.toml"

    @property
    def resolved(self) -> Path:
        """Every key of the recipe with its value, as JSON; what a later call must agree with."""
        return self.path / "recipe.json"

    @property
    def record(self) -> Path:
        """What was done so far: ``training.json``."""
        return self.path / "training.json"

    @property
    def checkpoints(self) -> Path:
        """Checkpoints of the loop."""
        return self.path / "checkpoints"

    @property
    def curves(self) -> Path:
        """Figures over steps."""
        return self.path / "curves.csv"

    @property
    def picture(self) -> Path:
        """The same, drawn."""
        return self.path / "curves.png"

    @property
    def scratch(self) -> Path:
        """Where the network is written to be validated; nothing stays there."""
        return self.path / "validating"

    @property
    def captures(self) -> Path:
        """Captured hidden states, a folder for each set of them."""
        return self.data / "captures"

    @property
    def head(self) -> Path:
        """What was trained, in a published layout."""
        return self.path / "head"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other calls out of the folder, which is made where it is not.

        Raises:
            UsageError: another call trains here, or the folder cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            stream = (self.path / "lock").open("w")
        except OSError as error:
            raise UsageError(
                f"cannot write {self.path}: {error.strerror}", "name another folder with --out"
            ) from error
        with stream:
            if not lock(stream):
                raise UsageError(
                    f"{self.path} is being trained in by another process",
                    "wait for it to end, or stop it",
                )
            yield

    def begin(self, text: str, recipe: Recipe) -> None:
        """Keep the recipe, or see that the folder belongs to it.

        Before the first checkpoint any recipe may take the place of the former one: nothing was
        learned yet, and the data says by itself what may go on with it.

        Raises:
            UsageError: another recipe was trained here; the first key that differs is named.
            SpecbenchError: the disk is full.
        """
        wanted = recipe.model_dump(mode="json", by_alias=True)
        if not (self.checkpoints / LAST).exists() and not self.head.exists():
            self._forget()
        elif self.resolved.is_file():
            self._allow(dict(_differences(_json(self.resolved), wanted)))
        with writing(self.recipe, "nothing was begun") as part:
            part.write_text(text, encoding="utf-8")
        with writing(self.resolved, "nothing was begun") as part:
            part.write_text(json.dumps(wanted, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def _forget(self) -> None:
        """Drop what a loop without a checkpoint left behind."""
        self.curves.unlink(missing_ok=True)
        if self.noted().keys() & {FAILED, CHANGES}:
            self.note(failed=None, changes=None)

    def _allow(self, differing: Mapping[str, tuple[Any, Any]]) -> None:
        """Refuse a changed key that may not change; note the others that change weights."""
        known = self.noted()
        may = FREE | (BEHIND_A_FAILURE if known.get(FAILED) else frozenset())
        for key, (old, new) in differing.items():
            if key not in may:
                there, here = _shown(old, new)
                raise UsageError(
                    f"{self.path} holds a training with {key} = {there}, the recipe has {here}",
                    self._elsewhere(differing),
                )
        changed = [
            {"behind": known[FAILED], "key": key, "from": old, "to": new}
            for key, (old, new) in differing.items()
            if key not in FREE
        ]
        if changed:
            self.note(changes=[*known.get(CHANGES, []), *changed])

    def _elsewhere(self, differing: Iterable[str]) -> str:
        """Where a changed recipe can be trained; with the data of this one where it may go on."""
        others = tuple(f"data.{name}" for name in SETTINGS)
        if any(key.startswith(others) for key in differing):
            return "set the key back, or name another folder: --out OTHER"
        return (
            f"set the key back, or name another folder: --out OTHER --data {self.data}, which "
            "shares the data"
        )

    def note(self, **facts: object) -> None:
        """Add facts to the record, replacing those of the same names; None removes one.

        Raises:
            SpecbenchError: the disk is full; the former record is still there.
        """
        known = {**self.noted(), **facts}
        found = {name: fact for name, fact in known.items() if fact is not None}
        with writing(self.record, "what was trained is kept") as part:
            part.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def noted(self) -> dict[str, Any]:
        """The record; empty before the first note."""
        return _json(self.record) if self.record.is_file() else {}


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise PrerequisiteError(f"{path} is no JSON", AGAIN) from error
    if not isinstance(found, dict):
        raise PrerequisiteError(f"{path} is no record", AGAIN)
    return found


def _differences(old: Any, new: Any, at: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Key and both values of everything that differs, in the order of the new file.

    Tables of a list are told apart by their names, where they have some.
    """
    old, new = _named(old), _named(new)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in [*new, *(name for name in old if name not in new)]:
            yield from _differences(old.get(name), new.get(name), f"{at}.{name}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list):
        for place, pair in enumerate(zip_longest(old, new)):
            yield from _differences(*pair, f"{at}[{place}]")
    elif old != new:
        yield at, (old, new)


def _named(value: Any) -> Any:
    """Tables of a list by their names; anything else as it is."""
    tables = value if isinstance(value, list) else []
    named = {one["name"]: one for one in tables if isinstance(one, Mapping) and "name" in one}
    return named if named and len(named) == len(tables) else value


def _shown(old: object, new: object) -> list[str]:
    """Both as JSON; of long ones what is around the first difference."""
    texts = [json.dumps(value, ensure_ascii=False) for value in (old, new)]
    pairs = zip(*texts, strict=False)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    if max(map(len, texts)) > SHOWN and same > SHOWN // 2:
        texts = [f"...{text[same - BEFORE :]}" for text in texts]
    return [text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..." for text in texts]

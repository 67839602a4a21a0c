"""The folder of a training: what is in it, and whether this recipe may go on there."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError, UsageError
from specbench.train.capture.disk import writing
from specbench.train.recipe.schema import Recipe

FREE = frozenset({"title", "train.patience", "train.validations"})
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
            if not _locked(stream.fileno()):
                raise UsageError(
                    f"{self.path} is being trained in by another process",
                    "wait for it to end, or stop it",
                )
            yield

    def begin(self, text: str, recipe: Recipe) -> None:
        """Keep the recipe, or see that the folder belongs to it.

        Raises:
            UsageError: another recipe was trained here; the first key that differs is named.
            SpecbenchError: the disk is full.
        """
        wanted = recipe.model_dump(mode="json", by_alias=True)
        if self.resolved.is_file():
            self._allow(dict(_differences(_json(self.resolved), wanted)))
        with writing(self.recipe, "nothing was begun") as part:
            part.write_text(text, encoding="utf-8")
        with writing(self.resolved, "nothing was begun") as part:
            part.write_text(json.dumps(wanted, indent=2, ensure_ascii=False) + "\n", "utf-8")

    def _allow(self, differing: Mapping[str, tuple[Any, Any]]) -> None:
        """Refuse a changed key that may not change; note the others that change weights."""
        known = self.noted()
        may = FREE | (BEHIND_A_FAILURE if known.get(FAILED) else frozenset())
        for key, (old, new) in differing.items():
            if key not in may:
                raise UsageError(
                    f"{self.path} holds a training with {key} = {_short(old)}, the recipe has "
                    f"{_short(new)}",
                    "name another folder with --out, or remove this one",
                )
        changed = [
            {"behind": known[FAILED], "key": key, "from": old, "to": new}
            for key, (old, new) in differing.items()
            if key not in FREE
        ]
        if changed:
            self.note(changes=[*known.get(CHANGES, []), *changed])

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
        raise PrerequisiteError(
            f"{path} is no JSON", "remove its folder and train again"
        ) from error
    if not isinstance(found, dict):
        raise PrerequisiteError(f"{path} is no record", "remove its folder and train again")
    return found


def _differences(old: Any, new: Any, at: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Key and both values of everything that differs, in the order of the new file."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in [*new, *(name for name in old if name not in new)]:
            yield from _differences(old.get(name), new.get(name), f"{at}.{name}".lstrip("."))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, pair in enumerate(zip(old, new, strict=True)):
            yield from _differences(*pair, f"{at}[{place}]")
    elif old != new:
        yield at, (old, new)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


if sys.platform == "win32":

    def _locked(number: int) -> bool:
        """No advisory locks here."""
        return True

else:
    import fcntl

    def _locked(number: int) -> bool:
        # The kernel drops the lock with the process, however that ends.
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

"""Which target a head was trained on, as its files say, and whether it is another one now.

A target that was quantised or exported again has other weights and is the same model, so that a
difference is told and not refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.folder import read_json

CARD = "training.json"
"""Left beside a head by its training: ``target`` (``name``, ``weight_hash``), ``suites``, more."""


@dataclass(frozen=True, slots=True)
class MadeFor:
    """The target of a training run.

    Attributes:
        name: as the recipe named it.
        weight_hash: SHA-256 over its weight files, as ``models.weights.weight_hash`` gives it.
        trained_on: what the training saw, in words; empty where the files do not say.
    """

    name: str
    weight_hash: str
    trained_on: str = ""


def made_for(folder: Path) -> MadeFor | None:
    """The ``target`` of ``training.json``, else of ``config.json``; None where neither has one."""
    for file in (CARD, "config.json"):
        said = _said(folder / file)
        target = said.get("target")
        # A bigram table's configuration has the name and the hash side by side.
        held = target if isinstance(target, Mapping) else {**said, "name": target}
        name, digest = held.get("name"), held.get("weight_hash")
        if isinstance(name, str) and isinstance(digest, str):
            return MadeFor(name, digest, _trained_on(said))
    return None


def _trained_on(said: Mapping[str, Any]) -> str:
    """What ``training.json`` says of the answers that were trained on."""
    data = said.get("data")
    train = data.get("train") if isinstance(data, Mapping) else None
    counts = train if isinstance(train, Mapping) else {}
    answers, tokens = counts.get("answers"), counts.get("answer_tokens")
    if not (isinstance(answers, int) and isinstance(tokens, int)):
        return ""
    return f"{answers:,} own answers of the target, {tokens:,} tokens"


def _said(path: Path) -> Mapping[str, Any]:
    """A JSON object; other programs may leave anything under these names."""
    try:
        return read_json(path)
    except PrerequisiteError:
        return {}


def other_target(made: MadeFor | None, name: str, weight_hash: str) -> str:
    """A sentence where a head was made for other weights than these; empty where not, or unknown.

    Args:
        made: from ``made_for``.
        name, weight_hash: of the target that it is to draft for.
    """
    if made is None or not weight_hash or made.weight_hash == weight_hash:
        return ""
    return (
        f"made for {made.name} with weights {made.weight_hash[:12]}, but {name} has weights "
        f"{weight_hash[:12]}: unless this is the same model, it is accepted less often"
    )

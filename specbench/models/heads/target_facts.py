"""What decides whether a head fits a target, from the target's ``config.json``; without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from specbench.models.heads.files import read_json
from specbench.models.heads.layouts.llama_config import text_config, whole_number
from specbench.models.locate import Location


class Target(Protocol):
    """What readers ask of a target: ``TargetFacts``, or ``configs.TargetShape``."""

    @property
    def hidden(self) -> int: ...

    @property
    def layers(self) -> int: ...

    @property
    def vocabulary(self) -> int: ...

    @property
    def model_type(self) -> str: ...


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """Numbers of a target; ``config`` is its configuration (the language model's part)."""

    hidden: int
    layers: int
    vocabulary: int
    model_type: str
    config: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The configuration, as a transformers object would give it."""
        return dict(self.config)


def target_facts(location: Location) -> TargetFacts:
    """Facts of a target on this disk.

    Raises:
        PrerequisiteError: a configuration without sizes.
    """
    assert location.path is not None
    config = text_config(read_json(location.path / "config.json"))
    return TargetFacts(
        whole_number(config, "hidden_size", location.name),
        whole_number(config, "num_hidden_layers", location.name),
        whole_number(config, "vocab_size", location.name),
        str(config.get("model_type")),
        config,
    )

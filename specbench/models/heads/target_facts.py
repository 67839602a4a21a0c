"""What decides whether a head fits a target, from the target's ``config.json``; without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.folder import read_json
from specbench.models.heads.files import open_checkpoint
from specbench.models.heads.layouts.fp8 import BESIDE_WEIGHTS
from specbench.models.heads.layouts.llama_config import text_config, whole_number
from specbench.models.locate import Location, fetch_command


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
    """Numbers of a target.

    Attributes:
        hidden, layers, vocabulary, model_type: as ``configs.TargetShape``.
        config: its configuration (the language model's part).
        last_layer: name within the layer -> shape of its last layer's tensors; empty where its
            files are not at hand, are pickles, or have other names than Llama's.
    """

    hidden: int
    layers: int
    vocabulary: int
    model_type: str
    config: Mapping[str, Any]
    last_layer: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The configuration, as a transformers object would give it."""
        return dict(self.config)


def target_facts(location: Location) -> TargetFacts:
    """Facts of a target on this disk.

    Raises:
        UsageError: a GGUF file, which has no ``config.json``.
        PrerequisiteError: a hub model that is not on this disk, or a configuration without sizes.
    """
    if location.kind == "gguf":
        raise UsageError(
            f"the target {location.name} is a GGUF file; heads are checked against a model folder",
            "name the folder or hub id of the same model",
        )
    if location.path is None:
        raise PrerequisiteError(
            f"the target {location.name} is not on this disk",
            f"type: {fetch_command(location.name, location.revision)}",
        )
    config = text_config(read_json(location.path / "config.json"))
    layers = whole_number(config, "num_hidden_layers", location.name)
    return TargetFacts(
        whole_number(config, "hidden_size", location.name),
        layers,
        whole_number(config, "vocab_size", location.name),
        str(config.get("model_type")),
        config,
        _last_layer(location.path, layers),
    )


def _last_layer(path: Path, layers: int) -> dict[str, tuple[int, ...]]:
    """Shapes of a folder's last layer, from safetensors headers."""
    if not any(path.glob("*.safetensors")):
        return {}
    files = open_checkpoint(path, beside=False)
    prefix = f"model.layers.{layers - 1}."
    return {
        name.removeprefix(prefix): files.shape(name)
        for name, file in files.files.items()
        if name.startswith(prefix)
        and not name.endswith(BESIDE_WEIGHTS)
        and file.suffix == ".safetensors"
    }

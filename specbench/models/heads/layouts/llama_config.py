"""Numbers of a Llama-like configuration, whichever version of transformers wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specbench.errors import PrerequisiteError


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a configuration."""
    inner = config.get("text_config")
    return inner if isinstance(inner, Mapping) else config


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary embedding; ``theta`` is None where the configuration does not say."""

    theta: float | None
    scaling: Mapping[str, object] | None


def rope_of(config: Mapping[str, Any]) -> Rope:
    """From ``rope_theta`` and ``rope_scaling``, or from ``rope_parameters`` (transformers 5)."""
    given = dict(config.get("rope_parameters") or {})
    theta = given.pop("rope_theta", config.get("rope_theta"))
    kind = given.get("rope_type", "default")
    scaling = given if given and kind != "default" else config.get("rope_scaling")
    if isinstance(scaling, Mapping) and scaling.get("rope_type", scaling.get("type")) == "default":
        scaling = None
    return Rope(None if theta is None else float(theta), scaling)


def whole_number(config: Mapping[str, Any], key: str, where: str) -> int:
    """A number that must be there.

    Raises:
        PrerequisiteError: it is not, or is no whole number.
    """
    value = config.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise PrerequisiteError(
            f"{where}: config.json has no usable {key} (found {value!r})",
            "copy the checkpoint's own config.json into the folder",
        )
    return value

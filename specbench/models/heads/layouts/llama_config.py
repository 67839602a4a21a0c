"""Numbers of a Llama-like configuration, whichever version of transformers wrote it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specbench.errors import PrerequisiteError

ROPE_TYPES = ("linear", "llama3", "yarn")
"""Of RoPE, whose angles do not depend on the batch."""


def text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's part of a configuration."""
    inner = config.get("text_config")
    return inner if isinstance(inner, Mapping) else config


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary embedding; ``theta`` is None where the configuration does not say."""

    theta: float | None
    scaling: Mapping[str, object] | None


def rope_of(config: Mapping[str, Any], where: str) -> Rope:
    """From ``rope_theta`` and ``rope_scaling``, or from ``rope_parameters`` (transformers 5).

    Raises:
        PrerequisiteError: values of the wrong kind, or a type that the heads' layers cannot run.
    """
    given = dict(said(config, "rope_parameters", Mapping, where) or {})
    theta = said(given or config, "rope_theta", float, where)
    if theta is None:
        theta = said(config, "rope_theta", float, where)
    given.pop("rope_theta", None)
    scaling = given if not _is_default(given) else said(config, "rope_scaling", Mapping, where)
    if scaling is None or _is_default(scaling):
        return Rope(theta, None)
    if (kind := _kind(scaling)) not in ROPE_TYPES:
        raise PrerequisiteError(
            f"{where}: config.json says RoPE of type {kind!r}, run natively: "
            f"{', '.join(('default', *ROPE_TYPES))}",
            "use a head with one of these; others depend on the batch or are not known",
        )
    return Rope(theta, scaling)


def _kind(scaling: Mapping[str, Any]) -> object:
    return scaling.get("rope_type", scaling.get("type"))


def _is_default(scaling: Mapping[str, Any]) -> bool:
    """Whether the angles are plain ones.

    Qwen-VL's ``mrope`` turns parts of a head by time, row and column of an image; these three are
    the same number for text. Its files name no type or this one.
    """
    kind = _kind(scaling)
    if kind is None:
        kinds = ("rope_type", "type")
        return all(key.startswith("mrope_") for key in scaling if key not in kinds)
    return kind in ("default", "mrope")


def said(config: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    """A value that need not be there: None for null and for a missing key.

    Args:
        config: where to look.
        key: the value's.
        kind: ``bool``, ``int``, ``float`` (whole numbers too), ``str``, ``list`` or ``Mapping``.
        where: for messages.

    Raises:
        PrerequisiteError: a value of another kind; JSON knows no other way to be wrong.
    """
    value = config.get(key)
    if value is None:
        return None
    flag = isinstance(value, bool)
    if kind is float and isinstance(value, (int, float)) and not flag:
        return float(value)
    if not isinstance(value, kind) or (flag and kind is not bool):
        raise wrong(key, value, where, _WORDS[kind])
    return value


def stated(config: Mapping[str, Any], key: str, kind: type, default: Any, where: str) -> Any:
    """A value with a default for a missing key; null is refused as ``said`` refuses others."""
    if key in config and config[key] is None:
        raise wrong(key, None, where, _WORDS[kind])
    return said(config, key, kind, where) if key in config else default


def positive(value: Any, key: str, where: str) -> Any:
    """A number above 0, or None. PrerequisiteError: it is not above 0."""
    if value is not None and not 0 < value < float("inf"):
        raise wrong(key, value, where, "a number above 0")
    return value


_WORDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a name",
    list: "a list",
    Mapping: "an object",
}


def wrong(key: str, value: object, where: str, wanted: str) -> PrerequisiteError:
    """The error for a value that is there and is not what it should be."""
    return PrerequisiteError(
        f"{where}: config.json says {key} = {json.dumps(value, default=str)}, expected {wanted}",
        "copy the checkpoint's own config.json into the folder",
    )


def whole_number(config: Mapping[str, Any], key: str, where: str) -> int:
    """A number that must be there.

    Raises:
        PrerequisiteError: it is not, or is no whole number above 0.
    """
    value = config.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        if key in config:
            raise wrong(key, value, where, "a whole number above 0")
        raise PrerequisiteError(
            f"{where}: config.json has no {key}",
            "copy the checkpoint's own config.json into the folder",
        )
    return value

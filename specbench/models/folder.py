"""Whether a model folder is complete, and the record that our conversions leave in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError

CONVERTER_VERSION = 1
"""Raised whenever the GGUF conversion writes different bytes; older folders are made again."""

RECORD = "specbench.json"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "tekken.json")


def check_folder(
    path: Path, *, allow_pickle: bool = False, needs_tokenizer: bool = True
) -> list[Path]:
    """The weight files of a model folder, sorted by name.

    Raises:
        PrerequisiteError: configuration, weights, a shard or the tokenizer is missing, or the
            weights are pickles (which can run code when they are read) and those are not allowed.
    """
    if not (path / "config.json").is_file():
        if (path / "adapter_config.json").is_file():
            raise PrerequisiteError(
                f"{path} holds an adapter, not a model", "merge it into its base model first"
            )
        raise PrerequisiteError(
            f"{path} has no config.json, so it is not a model folder",
            "name a folder with config.json, *.safetensors and tokenizer.json",
        )
    weights = weight_files(path, allow_pickle=allow_pickle)
    if needs_tokenizer and not any((path / name).is_file() for name in TOKENIZER_FILES):
        raise PrerequisiteError(
            f"{path} has no tokenizer (looked for {', '.join(TOKENIZER_FILES)})",
            "copy the tokenizer files of the model into the folder",
        )
    return weights


def weight_files(path: Path, *, allow_pickle: bool = False) -> list[Path]:
    """The files that transformers reads from a folder, sorted by name; see ``check_folder``.

    Folders may hold the same weights twice (``consolidated.safetensors``): shards named by the
    index come first, then ``model.safetensors``, then whatever there is.
    """
    index, single = path / "model.safetensors.index.json", path / "model.safetensors"
    if index.is_file():
        return _shards(index)
    if found := [single] if single.is_file() else sorted(path.glob("*.safetensors")):
        return found
    pickles, index = sorted(path.glob("*.bin")), path / "pytorch_model.bin.index.json"
    if allow_pickle and index.is_file():
        return _shards(index)
    if pickles and allow_pickle:
        return pickles
    if pickles:
        raise PrerequisiteError(
            f"{path} has pickled weights only ({pickles[0].name}), which can run code when read",
            "convert them to safetensors",
        )
    raise PrerequisiteError(f"{path} has no *.safetensors file", "fetch or copy the model again")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; empty where there is no such file. PrerequisiteError for anything else."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PrerequisiteError(f"{path} is not JSON: {error}", "fetch the model again") from None
    if not isinstance(value, dict):
        raise PrerequisiteError(
            f"{path} holds {json.dumps(value)[:40]}, expected a JSON object",
            "fetch or copy the model again",
        )
    return value


def _shards(index: Path) -> list[Path]:
    """Files that an index names, sorted. PrerequisiteError: it names none, or one is missing."""
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise PrerequisiteError(f"{index} has no weight_map", "fetch or copy the model again")
    path, shards = index.parent, sorted(set(map(str, weight_map.values())))
    if missing := [name for name in shards if not (path / name).is_file()]:
        raise PrerequisiteError(
            f"{path} lacks {len(missing)} of {len(shards)} weight files: {missing[0]} …",
            "fetch or copy the model again",
        )
    return [path / name for name in shards]


def read_record(folder: Path) -> Mapping[str, object] | None:
    """What our conversion wrote about a folder; None if absent or of another converter version."""
    path = folder / RECORD
    if not path.is_file():
        return None
    try:
        record = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        return None
    fits = isinstance(record, dict) and record.get("converter_version") == CONVERTER_VERSION
    return record if fits else None

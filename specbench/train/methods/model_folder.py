"""Write a whole model that was trained, so that it loads like any other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from specbench.models.quiet import quiet
from specbench.train.capture.disk import unwritten

TOKENIZER = (
    "tokenizer*",
    "vocab*",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template*",
    "tekken.json",
    "*.model",
    "*.tiktoken",
)
"""Files of a tokenizer, whatever its kind."""


def write_model(
    model: Any,
    folder: Path,
    tokenizer: Path | None,
    *,
    state: Mapping[str, Tensor] | None = None,
    dtype: torch.dtype | None = None,
    more: Mapping[str, object] | None = None,
) -> None:
    """Write configuration, tensors in safetensors, and the files of a tokenizer.

    Args:
        model: a transformers model.
        folder: made where it is not.
        tokenizer: folder of a model with the same tokenizer; None writes none.
        state: tensors to write in place of the model's own.
        dtype: of all of them; None for the model's own.
        more: keys that are added to ``config.json``.

    Raises:
        SpecbenchError: the disk is full, or cannot be written.
    """
    kind = model.dtype if dtype is None else dtype
    tensors = _cast(state or model.state_dict(), kind)
    try:
        with quiet():
            model.save_pretrained(folder, state_dict=tensors)
        _describe(folder, {**(more or {}), "dtype": str(kind).removeprefix("torch.")})
        if tokenizer is not None:
            _copy_tokenizer(tokenizer, folder)
    except (OSError, SafetensorError) as error:
        raise unwritten(folder, error, "it goes on from the last checkpoint") from error


def _describe(folder: Path, more: Mapping[str, object]) -> None:
    """Add keys to a configuration."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text(encoding="utf-8")), **more}
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _copy_tokenizer(source: Path, folder: Path) -> None:
    for file in sorted({f for pattern in TOKENIZER for f in source.glob(pattern)}):
        if file.is_file():
            shutil.copyfile(file, folder / file.name)


def _cast(state: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Floating tensors in a type; those that were one stay one, so that it is written once."""
    made: dict[tuple[int, torch.Size], Tensor] = {}
    cast = {}
    for name, tensor in state.items():
        place = tensor.data_ptr(), tensor.shape
        if tensor.is_floating_point() and place not in made:
            made[place] = tensor.detach().to(dtype)
        cast[name] = made.get(place, tensor)
    return cast

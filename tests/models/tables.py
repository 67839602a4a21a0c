"""Bigram tables on disk, written by hand from the description of the format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

MADE_FOR = {"target": "org/target", "weight_hash": "ab" * 32}


def write_table(folder: Path, following: Sequence[int], **config: object) -> Path:
    """A table with a configuration that fits it, unless some of it is given."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"next": torch.tensor(following, dtype=torch.int32)}, folder / "bigram.safetensors")
    said = {"model_type": "bigram", "vocabulary": len(following), "tokens": 9, **MADE_FOR}
    (folder / "config.json").write_text(json.dumps(said | config))
    return folder

"""Write a head in a published layout, so that other programs read it too."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from specbench.catalog import nearest
from specbench.errors import UsageError
from specbench.models.heads.configs import HeadCheckpoint
from specbench.models.heads.writers import eagle, medusa, mtp

Writer = Callable[[HeadCheckpoint], tuple[Mapping[str, object], Mapping[str, Tensor]]]

LAYOUTS: dict[str, dict[str, Writer]] = {
    "eagle1": {"official": eagle.official1, "speculators": eagle.speculators1},
    "eagle3": {
        "official": eagle.official3,
        "specforge": eagle.specforge3,
        "speculators": eagle.speculators3,
    },
    "medusa": {"v2": medusa.v2, "v1": medusa.v1, "vllm": medusa.vllm},
    "mtp": {"nextn": mtp.nextn, "mimo": mtp.mimo, "speculators": mtp.speculators},
}
"""Family -> layout -> its writer; the first layout of a family is its default."""


def layouts_of(family: str) -> list[str]:
    """Layouts that a family can be written in, the default first. UsageError: no such family."""
    if family not in LAYOUTS:
        raise UsageError(f"unknown family of heads {family!r}", nearest(family, list(LAYOUTS)))
    return list(LAYOUTS[family])


def write_head(
    checkpoint: HeadCheckpoint, folder: Path, layout: str, *, pickled: bool = False
) -> Path:
    """Write a head's configuration and tensors; reading the folder gives the same head again.

    Ends that are the target's are left out, its rows of a draft vocabulary too; ``standalone``
    makes a head of it that brings its projection. Medusa heads with one projection for all have it
    once per head in layout v1.

    Args:
        checkpoint: what to write; its tensors keep their types.
        folder: made where it is not; it must hold no ``config.json`` yet.
        layout: of ``layouts_of(checkpoint.family)``.
        pickled: torch's format instead of safetensors, as the first Medusa checkpoints have it.

    Returns:
        The folder.

    Raises:
        UsageError: the layout is unknown or cannot say what the head is; a folder in use.
    """
    known = layouts_of(checkpoint.family)
    if layout not in known:
        raise UsageError(
            f"{checkpoint.family} heads have no layout {layout!r}", nearest(layout, known)
        )
    if (folder / "config.json").exists():
        raise UsageError(f"{folder} already holds a checkpoint", "name another folder")
    config, tensors = LAYOUTS[checkpoint.family][layout](checkpoint)
    folder.mkdir(parents=True, exist_ok=True)
    # safetensors refuses tensors that share memory or have gaps
    owned = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    stem = "medusa_lm_head" if layout in ("v1", "v2") else "model"
    if pickled:
        torch.save(owned, folder / (f"{stem}.pt" if stem != "model" else "pytorch_model.bin"))
    else:
        save_file(owned, folder / f"{stem}.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return folder

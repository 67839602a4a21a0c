"""The head that a training starts from, and how what comes out is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from specbench.errors import UsageError
from specbench.models.heads.configs import EagleConfig, HeadCheckpoint, MedusaConfig, TargetShape
from specbench.models.heads.new import new_head
from specbench.models.heads.read import read_head
from specbench.models.heads.standalone import standalone
from specbench.models.heads.write import layouts_of, write_head
from specbench.models.load import LoadedModel
from specbench.models.locate import locate
from specbench.train.capture.disk import unwritten
from specbench.train.recipe.schema import Recipe

Writer = Callable[[HeadCheckpoint, Path], object]
"""Writes a checkpoint into a folder."""

SHARING, IN_FULL = "v2", "vllm"
"""Medusa's layouts of heads that share the target's projection, and of those that bring one."""


def starting_head(
    recipe: Recipe, target: LoadedModel, draft_ids: Sequence[int] | None
) -> HeadCheckpoint:
    """The head that training starts from, in float32.

    Args:
        recipe: says whether it is new or a published one.
        target: what it is to fit; a folder on this disk.
        draft_ids: tokens that a new one can propose; None for all.

    Raises:
        UsageError, PrerequisiteError: no such head, one of another family or for another target.
    """
    if recipe.head.start is not None:
        return read_head(
            locate(recipe.head.start, needs_tokenizer=False),
            families=(recipe.family,),
            target=TargetShape.of(target.config),
            dtype="float32",
        )
    medusa = recipe.family == "medusa"
    shares = medusa and (recipe.head.full or recipe.head.layout is None)
    made, _ = new_head(
        target.location,
        recipe.family,
        layout=SHARING if shares else recipe.head.layout,
        seed=recipe.train.seed,
        draft_ids=draft_ids,
        heads=recipe.head.heads if medusa else None,
    )
    floats = {n: t.float() if t.is_floating_point() else t for n, t in made.tensors.items()}
    made = replace(made, tensors=floats)
    return _with_blocks(made, recipe.head.blocks) if medusa else _with_norms(made, recipe)


def _with_blocks(checkpoint: HeadCheckpoint, blocks: int) -> HeadCheckpoint:
    """So many residual blocks per head; one of zeros passes on what it gets."""
    config, tensors = checkpoint.config, dict(checkpoint.tensors)
    assert isinstance(config, MedusaConfig)
    for head in range(config.heads):
        for block in range(1, blocks):
            for kind in ("weight", "bias"):
                first = tensors[f"heads.{head}.blocks.0.{kind}"]
                tensors[f"heads.{head}.blocks.{block}.{kind}"] = torch.zeros_like(first)
    return replace(checkpoint, config=replace(config, blocks=blocks), tensors=tensors)


def _with_norms(checkpoint: HeadCheckpoint, recipe: Recipe) -> HeadCheckpoint:
    """The norms that a recipe asks for and published heads of this kind lack, all ones at first."""
    config, wanted = checkpoint.config, recipe.head
    if not isinstance(config, EagleConfig):
        return checkpoint
    tensors = dict[str, Tensor](checkpoint.tensors)
    size = config.target_hidden
    if config.version == 1:
        if wanted.input_norm:
            tensors["layers.0.input_layernorm.weight"] = torch.ones(config.hidden)
        if wanted.final_norm:
            tensors["norm.weight"] = torch.ones(config.hidden)
        config = replace(config, input_norm=wanted.input_norm, final_norm=wanted.final_norm)
    else:
        if wanted.norm_before_fc:
            tensors["input_norm.weight"] = torch.ones(len(config.taps) * size)
        if wanted.fc_norm:
            tensors |= {f"fc_norm.{i}.weight": torch.ones(size) for i in range(len(config.taps))}
        config = replace(config, norm_before_fc=wanted.norm_before_fc, fc_norm=wanted.fc_norm)
    return replace(checkpoint, config=config, tensors=tensors)


def writer(recipe: Recipe, checkpoint: HeadCheckpoint, target: LoadedModel) -> Writer:
    """What writes a head of this recipe in its layout and data type.

    Args:
        checkpoint: the head that training starts from.
        target: whose projection a head brings that is written in full.
    """
    layout = recipe.head.layout or _layout_of(checkpoint, recipe.head.full)
    dtype: torch.dtype = getattr(torch, recipe.head.dtype)
    lender = target if recipe.head.full else None
    return partial(_write, layout=layout, dtype=dtype, target=lender)


def _layout_of(checkpoint: HeadCheckpoint, full: bool) -> str:
    """The head's own layout where it can be written in it."""
    known, config = layouts_of(checkpoint.family), checkpoint.config
    if isinstance(config, MedusaConfig) and (full or checkpoint.layout not in known):
        return SHARING if config.projection == "target" and not full else IN_FULL
    return checkpoint.layout if checkpoint.layout in known else known[0]


def _write(
    checkpoint: HeadCheckpoint,
    folder: Path,
    *,
    layout: str,
    dtype: torch.dtype,
    target: LoadedModel | None,
) -> None:
    whole = checkpoint if target is None else standalone(checkpoint, target)
    tensors = {n: t.to(dtype) if t.is_floating_point() else t for n, t in whole.tensors.items()}
    try:
        write_head(replace(whole, tensors=tensors), folder, layout)
    except UsageError as error:
        raise UsageError(f"head.layout = {layout!r}: {error.message}", error.hint) from error
    except (OSError, SafetensorError) as error:
        raise unwritten(folder, error, "it goes on from the last checkpoint") from error

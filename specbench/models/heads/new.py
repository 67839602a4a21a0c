"""Untrained heads that fit a target: what training starts from, and a check that all runs.

Each starts near something sane: EAGLE-1 repeats the target's own prediction, EAGLE-3 reads the
target's upper tapped layer through the target's norm and output projection, Medusa repeats the
target's prediction, and an MTP module passes the target's hidden state on, normed once more and
with noise from the embedding, through a layer that adds little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.heads.configs import (
    HeadCheckpoint,
    MedusaConfig,
    MtpConfig,
    TargetShape,
)
from specbench.models.heads.files import open_checkpoint
from specbench.models.heads.layouts.mtp_switches import switches_of
from specbench.models.heads.new_eagle import new_eagle1, new_eagle3
from specbench.models.heads.new_maker import SPREAD, Maker
from specbench.models.heads.new_vocabulary import drafted_ids
from specbench.models.heads.target_facts import TargetFacts, target_facts
from specbench.models.heads.write import layouts_of
from specbench.models.locate import UNTRAINED, Location, fetch_command


def untrained(location: Location, family: str, dtype: str, seed: int = 0) -> HeadCheckpoint:
    """An untrained head for a target; see ``new_head``, whose errors these are.

    Args:
        dtype: data type of its tensors, by name.
    """
    made, _ = new_head(location, family, seed=seed)
    kind = getattr(torch, dtype)
    tensors = {n: t.to(kind) if t.is_floating_point() else t for n, t in made.tensors.items()}
    told = f"untrained, from seed {seed}: it is rarely accepted"
    return replace(made, tensors=tensors, name=UNTRAINED, oddities=(*made.oddities, told))


def new_head(
    location: Location,
    family: str,
    *,
    layout: str | None = None,
    seed: int = 0,
    draft_vocabulary: int | None = None,
    draft_ids: Sequence[int] | None = None,
    heads: int | None = None,
) -> tuple[HeadCheckpoint, str]:
    """An untrained head for a target, and the layout to write it in.

    Args:
        location: the target, a folder on this disk.
        family: of ``write.LAYOUTS``.
        layout: of the family's; its first by default.
        seed: of the random weights.
        draft_vocabulary: how many tokens it drafts, chosen by ``first_ids``; None for all.
        draft_ids: exactly the target's tokens that it drafts, in any order; instead of a number.
            Its output projection then is the target's rows of them, in no file; only Medusa's
            layouts ``v1`` and ``vllm`` hold projections.
        heads: of a Medusa checkpoint; None for 5, as the authors train.

    Raises:
        UsageError: an unknown family or layout, or an option that does not apply.
        PrerequisiteError: a target that is not a folder on this disk, or lacks a tensor.
    """
    known = layouts_of(family)
    layout = layout or known[0]
    if heads is not None and (family != "medusa" or heads < 1):
        raise UsageError(f"{heads} heads of family {family}", "medusa has one or more of them")
    if location.path is None or not location.path.is_dir():
        raise PrerequisiteError(
            f"{location.name} is not a model folder on this disk",
            f"type: {fetch_command(location.name, location.revision)}, or name a folder",
        )
    target, files = target_facts(location), open_checkpoint(location.path)
    ids = drafted_ids(draft_ids, draft_vocabulary, location.path, target.vocabulary)
    generator = torch.Generator().manual_seed(seed)
    maker = Maker(target, files, layout, generator, _dtype(target), ids, heads or 5)
    return _MAKERS[family](maker), layout


def _medusa(maker: Maker) -> HeadCheckpoint:
    size = maker.target.hidden
    tensors = maker.token_map()
    own = maker.layout != "v2"
    for head in range(maker.heads):
        tensors[f"heads.{head}.blocks.0.weight"] = torch.zeros(size, size, dtype=maker.dtype)
        tensors[f"heads.{head}.blocks.0.bias"] = torch.zeros(size, dtype=maker.dtype)
        if own:
            tensors[f"heads.{head}.projection.weight"] = maker.output_rows()
    sizes = size, maker.target.vocabulary, maker.drafted
    config = MedusaConfig(*sizes, maker.heads, 1, "own" if own else "target", True)
    return HeadCheckpoint("medusa", maker.layout, config, tensors)


def _mtp(maker: Maker) -> HeadCheckpoint:
    target = maker.target
    switches = switches_of(maker.layout, target.model_type)
    prefix = f"model.layers.{target.layers - 1}."
    found = sorted(name for name in maker.files.files if name.startswith(prefix))
    names = found or [f"{prefix}input_layernorm.weight"]
    norm, *layer = maker.from_target("model.norm.weight", *names)
    tensors = {
        f"layer.{name.removeprefix(prefix)}": maker.like(name, tensor)
        for name, tensor in zip(names, layer, strict=True)
    }
    place = 1 if switches.order == "embedding_first" else 0
    tensors |= {
        "enorm.weight": maker.ones(),
        "hnorm.weight": maker.ones(),
        "eh_proj.weight": maker.passing(2, place, spread=SPREAD),
        "norm.weight": norm,
    }
    shape = TargetShape(target.hidden, target.layers, target.vocabulary, target.model_type, target)
    s, drafted = switches, maker.drafted
    config = MtpConfig(s.family, 1, s.order, s.recycle, s.zero_first, shape, drafted)
    return HeadCheckpoint("mtp", maker.layout, config, tensors | maker.token_map())


_MAKERS: dict[str, Callable[[Maker], HeadCheckpoint]] = {
    "eagle1": new_eagle1,
    "eagle3": new_eagle3,
    "medusa": _medusa,
    "mtp": _mtp,
}


def _dtype(target: TargetFacts) -> torch.dtype:
    """The target's type where it is a plain one; bfloat16 for the rest."""
    name = str(target.config.get("dtype") or target.config.get("torch_dtype"))
    return {"float32": torch.float32, "float16": torch.float16}.get(name, torch.bfloat16)

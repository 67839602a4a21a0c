"""From the files of a published head to one description, whatever program wrote them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from specbench.decoding.protocols import Tap
from specbench.errors import UsageError
from specbench.models.heads.configs import (
    EagleConfig,
    HeadCheckpoint,
    HeadConfig,
    MedusaConfig,
    MtpConfig,
    TargetShape,
)
from specbench.models.heads.copies import without_copies
from specbench.models.heads.dequantise import dequantise
from specbench.models.heads.fetch import download_head
from specbench.models.heads.files import files_hash, open_checkpoint
from specbench.models.heads.made_for import made_for
from specbench.models.heads.plan import Plan
from specbench.models.heads.planning import plan_head
from specbench.models.heads.tensors import load_tensors
from specbench.models.heads.token_map import from_ids, from_offsets
from specbench.models.locate import Location

_CONFIGS: Mapping[str, type[HeadConfig]] = {
    "eagle1": EagleConfig,
    "eagle3": EagleConfig,
    "medusa": MedusaConfig,
    "mtp": MtpConfig,
}

_FLOAT32 = (".mlp.gate.weight", ".mlp.gate.e_score_correction_bias")
"""Ends names of tensors that transformers keeps in float32: they choose the experts."""


def read_head(
    location: Location,
    *,
    families: Sequence[str],
    target: TargetShape,
    dtype: str,
    arm: str = "",
) -> HeadCheckpoint:
    """Read a head's checkpoint; downloads a hub checkpoint that is not cached.

    Args:
        location: from ``locate``; for MTP layers the target's own folder.
        families: what the caller can run, of ``configs.FAMILIES``.
        target: what it is to fit.
        dtype: data type of the tensors; ``auto`` leaves plain ones as they are stored.
        arm: for messages.

    Raises:
        UsageError: a checkpoint of another family, or what only a server can run.
        PrerequisiteError: missing, unknown or misshapen tensors; a head for another target.
    """
    location = _on_disk(location, arm)
    assert location.path is not None
    checkpoint = open_checkpoint(location.path)
    plan = plan_head(checkpoint, families, target, arm)
    stored = load_tensors(checkpoint, _wanted(plan))
    tensors, oddities = _tensors(plan, stored, str(checkpoint.path), target, dtype)
    tensors, more = without_copies(tensors, plan, checkpoint)
    return HeadCheckpoint(
        family=plan.family,
        layout=plan.layout,
        config=_config(plan, tensors, target),
        tensors=tensors,
        name=location.name,
        revision=location.revision,
        weight_hash=files_hash(sorted({checkpoint.files[name] for name in _wanted(plan)})),
        layer_ids=plan.layer_ids,
        oddities=(*plan.oddities, *oddities, *more),
        made_for=made_for(location.path),
    )


def _on_disk(location: Location, arm: str) -> Location:
    start = f"arm {arm}: " if arm else ""
    if location.kind == "gguf":
        raise UsageError(
            f"{start}{location.name} is a GGUF file, which holds no head in a form that is read",
            "name the head's folder or hub id",
        )
    return location if location.path is not None else download_head(location)


def _wanted(plan: Plan) -> list[str]:
    """Stored names of everything that is read."""
    maps = [name for name in (plan.offsets, plan.membership, plan.ids) if name is not None]
    return [*plan.sources.values(), *plan.scales.values(), *maps]


def _tensors(
    plan: Plan,
    stored: Mapping[str, Tensor],
    where: str,
    target: TargetShape,
    dtype: str,
) -> tuple[dict[str, Tensor], list[str]]:
    """Canonical tensors in memory of their own, and what their values show to be odd."""
    ids, note = _target_ids(plan, stored, where, target.vocabulary)
    tensors: dict[str, Tensor] = {}
    for name, source in plan.sources.items():
        value = stored[source]
        if source in plan.scales:
            value = dequantise(value, stored[plan.scales[source]], plan.block, source)
            value = value.to(torch.bfloat16) if dtype == "auto" else value
        if name in plan.rows_of_map:
            assert ids is not None
            value = value[ids]
        if dtype != "auto":
            value = value.to(getattr(torch, "float32" if name.endswith(_FLOAT32) else dtype))
        # cloned: what is mapped from a file is read late, and stays open
        tensors[name] = value.clone()
    if ids is not None and not _is_identity(ids, target.vocabulary):
        tensors["target_ids"] = ids
    return _with_output_bias(tensors), [note] if note else []


def _target_ids(
    plan: Plan, stored: Mapping[str, Tensor], where: str, vocabulary: int
) -> tuple[Tensor | None, str]:
    if plan.ids is not None:
        return from_ids(stored[plan.ids], vocabulary, where), ""
    if plan.offsets is None:
        return None, ""
    mask = None if plan.membership is None else stored[plan.membership]
    return from_offsets(stored[plan.offsets], mask, vocabulary, where)


def _is_identity(ids: Tensor, vocabulary: int) -> bool:
    return len(ids) == vocabulary and torch.equal(ids, torch.arange(vocabulary))


def _with_output_bias(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Qwen-like attention has no bias behind it; a bias of zero is the same network."""
    for name in [n for n in tensors if n.startswith("layers.") and n.endswith("q_proj.bias")]:
        output = name.replace("q_proj", "o_proj")
        rows = tensors[output.replace(".bias", ".weight")].shape[0]
        tensors.setdefault(output, tensors[name].new_zeros(rows))
    return tensors


def _config(plan: Plan, tensors: Mapping[str, Tensor], target: TargetShape) -> HeadConfig:
    """The family's configuration."""
    kind = _CONFIGS[plan.family]
    given: dict[str, Any] = dict(plan.fields)
    if kind is MtpConfig:
        # Its vocabulary is part of the target's description.
        del given["vocabulary"]
        given["target"] = target
    assert plan.places is not None
    given["taps"] = tuple(Tap(*place) for place in plan.places)
    assert given.keys() <= {f.name for f in fields(kind)}
    return kind(**given)

"""Heads that bring their output projection, so that programs run them that do not look for rows."""

from __future__ import annotations

from dataclasses import replace

import torch

from specbench.errors import PrerequisiteError
from specbench.models.heads.configs import HeadCheckpoint, MedusaConfig, MtpConfig
from specbench.models.heads.lent import check_map, lent_rows
from specbench.models.load import LoadedModel

_PROJECTION = {
    "eagle1": "lm_head.weight",
    "eagle3": "lm_head.weight",
    "mtp": "head.weight",
    "medusa": "projection.weight",
}
"""Canonical name of an output projection by family."""


def standalone(checkpoint: HeadCheckpoint, target: LoadedModel) -> HeadCheckpoint:
    """The head with the target's output projection as its own; unchanged where it has one.

    It drafts the same. Its projection holds the rows of its draft vocabulary, or all of them, in
    its own data type on the CPU; Medusa heads share one. Layouts of MTP other than ``nextn`` and
    Medusa's ``v2`` have no place for it, which ``write_head`` refuses.

    Args:
        checkpoint: any head.
        target: whose projection it is.

    Raises:
        PrerequisiteError: another target, or one whose projection has a bias or is quantised.
    """
    name, config = checkpoint.name or checkpoint.family, checkpoint.config
    place = _PROJECTION[checkpoint.family]
    each = isinstance(config, MedusaConfig) and config.projection == "own"
    if each or place in checkpoint.tensors:
        return checkpoint
    sizes = config.target if isinstance(config, MtpConfig) else config
    output = target.model.get_output_embeddings()
    wanted = [sizes.vocabulary, sizes.hidden]
    if output is None or [output.out_features, output.in_features] != wanted:
        raise PrerequisiteError(
            f"{name}: an output projection of {wanted} is missing, which the target does not have",
            "use the target that the head was trained for",
        )
    check_map(checkpoint, output.out_features, name)
    ids = checkpoint.tensors.get("target_ids", torch.arange(output.out_features))
    rows = lent_rows(output, ids, checkpoint.dtype, name)
    if rows.bias is not None:
        raise PrerequisiteError(
            f"{name}: the target's output projection has a bias, which no layout of heads has",
            "export the head without its projection",
        )
    return replace(
        checkpoint,
        config=replace(config, projection="one") if isinstance(config, MedusaConfig) else config,
        tensors={**checkpoint.tensors, place: rows.weight.cpu()},
    )

"""Medusa heads as their authors and vLLM write them (ALGORITHMS 4.4)."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from specbench.errors import UsageError
from specbench.models.heads.configs import HeadCheckpoint, MedusaConfig
from specbench.models.heads.writers.token_maps import offsets_of, stated

Parts = tuple[Mapping[str, object], Mapping[str, Tensor]]


def v1(checkpoint: HeadCheckpoint) -> Parts:
    """A list of heads, each with blocks and a projection: one for all is written for each."""
    config = _config(checkpoint)
    if config.projection == "target":
        raise UsageError("layout v1 needs projections, the heads have none", _hint(config))
    return _authors(checkpoint), _numbered(checkpoint)


def v2(checkpoint: HeadCheckpoint) -> Parts:
    """Blocks alone; the projection is the target's."""
    config = _config(checkpoint)
    if config.projection != "target":
        raise UsageError("layout v2 has no projections, the heads have", _hint(config))
    return {**_authors(checkpoint), "version": "2"}, _numbered(checkpoint)


def vllm(checkpoint: HeadCheckpoint) -> Parts:
    """vLLM's names; one projection or one per head, and a map of a smaller vocabulary."""
    config = _config(checkpoint)
    if config.projection == "target":
        raise UsageError("vLLM's layout needs projections, the heads have none", _hint(config))
    tensors: dict[str, Tensor] = {}
    for name, tensor in checkpoint.tensors.items():
        head, _, rest = name.removeprefix("heads.").partition(".")
        if name == "target_ids":
            tensors["token_map"] = tensor
        elif name == "projection.weight":
            tensors["lm_head.weight"] = tensor
        elif rest == "projection.weight":
            tensors[f"lm_heads.{head}.weight"] = tensor
        else:
            tensors[f"blocks.{head}.layers.{rest.removeprefix('blocks.')}"] = tensor
    return {
        "model_type": "medusa",
        "architectures": ["MedusaModel"],
        "hidden_size": config.hidden,
        "vocab_size": config.vocabulary,
        "truncated_vocab_size": config.draft_vocabulary,
        "num_heads": config.heads,
        "num_hidden_layers": config.blocks,
        "medusa_fc_bias": config.bias,
        "original_lm_head": config.projection == "one",
        "max_paths": 64,
    }, tensors


def _config(checkpoint: HeadCheckpoint) -> MedusaConfig:
    assert isinstance(checkpoint.config, MedusaConfig), checkpoint.family
    return checkpoint.config


def _authors(checkpoint: HeadCheckpoint) -> dict[str, object]:
    config = _config(checkpoint)
    return {
        "base_model_name_or_path": "",
        "hidden_size": config.hidden,
        "vocab_size": config.vocabulary,
        **stated(checkpoint.tensors),
        "medusa_num_heads": config.heads,
        "medusa_num_layers": config.blocks,
    }


def _numbered(checkpoint: HeadCheckpoint) -> dict[str, Tensor]:
    """Names of a list of lists: ``head.place.linear.weight``, the projection behind the blocks.

    The map of a smaller vocabulary is EAGLE-3's, which no other program looks for here.
    """
    config = _config(checkpoint)
    tensors = offsets_of(checkpoint.tensors, config.vocabulary)
    for name, tensor in checkpoint.tensors.items():
        head, _, rest = name.removeprefix("heads.").partition(".")
        if name == "projection.weight":
            tensors |= {f"{i}.{config.blocks}.weight": tensor for i in range(config.heads)}
        elif rest == "projection.weight":
            tensors[f"{head}.{config.blocks}.weight"] = tensor
        elif name != "target_ids":
            block, _, kind = rest.removeprefix("blocks.").partition(".")
            tensors[f"{head}.{block}.linear.{kind}"] = tensor
    return tensors


def _hint(config: MedusaConfig) -> str:
    if config.projection == "target":
        return "use layout v2, or write the heads in full, with the target's projection"
    return "use layout vllm or v1"

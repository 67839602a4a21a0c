"""Medusa heads as their authors and vLLM write them (ALGORITHMS 4.4)."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from specbench.errors import UsageError
from specbench.models.heads.configs import HeadCheckpoint, MedusaConfig

Parts = tuple[Mapping[str, object], Mapping[str, Tensor]]


def v1(checkpoint: HeadCheckpoint) -> Parts:
    """A list of heads, each with blocks and a projection of its own."""
    config = _config(checkpoint)
    if config.projection != "own" or config.draft_vocabulary != config.vocabulary:
        raise UsageError(
            "layout v1 needs a projection over the whole vocabulary per head", _hint(config)
        )
    return _authors(config), _numbered(checkpoint, config)


def v2(checkpoint: HeadCheckpoint) -> Parts:
    """Blocks alone; the projection is the target's."""
    config = _config(checkpoint)
    if config.projection != "target":
        raise UsageError("layout v2 has no projections, the head has", _hint(config))
    return {**_authors(config), "version": "2"}, _numbered(checkpoint, config)


def vllm(checkpoint: HeadCheckpoint) -> Parts:
    """vLLM's names; one projection or one per head, and a map of a smaller vocabulary."""
    config = _config(checkpoint)
    if config.projection == "target":
        raise UsageError("vLLM's layout needs projections, the head has none", _hint(config))
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


def _authors(config: MedusaConfig) -> dict[str, object]:
    return {
        "base_model_name_or_path": "",
        "hidden_size": config.hidden,
        "vocab_size": config.vocabulary,
        "medusa_num_heads": config.heads,
        "medusa_num_layers": config.blocks,
    }


def _numbered(checkpoint: HeadCheckpoint, config: MedusaConfig) -> dict[str, Tensor]:
    """Names of a list of lists: ``head.place.linear.weight``, the projection behind the blocks."""
    tensors: dict[str, Tensor] = {}
    for name, tensor in checkpoint.tensors.items():
        head, _, rest = name.removeprefix("heads.").partition(".")
        if rest == "projection.weight":
            tensors[f"{head}.{config.blocks}.weight"] = tensor
        else:
            block, _, kind = rest.removeprefix("blocks.").partition(".")
            tensors[f"{head}.{block}.linear.{kind}"] = tensor
    return tensors


def _hint(config: MedusaConfig) -> str:
    return "use layout v2" if config.projection == "target" else "use layout vllm or v1"

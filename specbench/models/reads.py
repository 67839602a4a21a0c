"""What a forward of a loaded model reads at least: weights, and keys and values per token."""

from __future__ import annotations

from typing import Any

from specbench.core.limit import Reads
from specbench.models.packed import PackedModel


def weights_read(model: Any, weight_bytes: int) -> int | None:
    """Bytes of weights that every forward reads: an untied embedding gives single rows, and of
    routed experts only those that are met.

    Args:
        model: a transformers causal LM, whose linear layers are not packed yet.
        weight_bytes: of all its weights, tied ones once.

    Returns:
        None where there are experts and the configuration does not say how many are met.
    """
    config = model.config.get_text_config()
    embedding = model.get_input_embeddings().weight
    tied = getattr(model.get_output_embeddings(), "weight", None) is embedding
    unread = 0 if tied else embedding.numel() * embedding.element_size()
    experts = sum(
        parameter.numel() * parameter.element_size()
        for name, parameter in model.named_parameters()
        if ".experts." in name
    )
    if experts:
        met = getattr(config, "num_experts_per_tok", None)
        total = next((n for key in _COUNTS if (n := getattr(config, key, None))), None)
        if not met or not total:
            return None
        unread += experts - experts * met // total
    return weight_bytes - unread


def reads_of(weights: int | None, model: PackedModel) -> Reads | None:
    """What a packed forward reads at least; windows, which would bound the context, leave its
    keys and values out.
    """
    if weights is None:
        return None
    windowed = bool(getattr(model.model.config.get_text_config(), "sliding_window", None))
    return Reads(weights, 0 if windowed else model.kv_bytes)


_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")

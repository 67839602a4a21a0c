"""EAGLE heads as their authors, SpecForge and speculators write them (ALGORITHMS 4.1-4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from specbench.decoding.protocols import Tap
from specbench.errors import UsageError
from specbench.models.heads.configs import EagleConfig, HeadCheckpoint
from specbench.models.heads.writers.token_maps import offsets_of

Parts = tuple[Mapping[str, object], Mapping[str, Tensor]]

SPECULATORS_VERSION = "0.3.0"
"""Of the format that is written, not of any installed package."""


def official1(checkpoint: HeadCheckpoint) -> Parts:
    """EAGLE-1/2 as in the authors' checkpoints."""
    config = _config1(checkpoint)
    return {
        "architectures": ["LlamaForCausalLM"],
        **_llama(config, checkpoint),
        "draft_vocab_size": config.draft_vocabulary,
        "bias": config.fc_bias,
    }, _with_map(checkpoint, config)


def speculators1(checkpoint: HeadCheckpoint) -> Parts:
    """EAGLE-1/2 as speculators' converter writes it."""
    config = _config1(checkpoint)
    if config.layers != 1:
        raise UsageError(
            f"the speculators layout of EAGLE-1 holds one layer, the head has {config.layers}",
            "use layout official",
        )
    tensors = {
        name.replace("layers.0.", "transformer.").replace("fc.", "fusion_fc."): tensor
        for name, tensor in _with_map(checkpoint, config).items()
    }
    return {
        "architectures": ["EagleSpeculator"],
        **_speculators("eagle", checkpoint),
        "draft_vocab_size": config.draft_vocabulary,
        "fusion_bias": config.fc_bias,
        "layernorms": False,
        "transformer_layer_architecture": "LlamaDecoderLayer",
    }, tensors


def official3(checkpoint: HeadCheckpoint) -> Parts:
    """EAGLE-3 as in the authors' checkpoints."""
    return _flat3(checkpoint, "LlamaForCausalLM")


def specforge3(checkpoint: HeadCheckpoint) -> Parts:
    """EAGLE-3 as SpecForge exports it and SGLang reads it."""
    return _flat3(checkpoint, "LlamaForCausalLMEagle3")


def speculators3(checkpoint: HeadCheckpoint) -> Parts:
    """EAGLE-3 as speculators saves it: layer ids of the stream that enters a layer."""
    config = eagle_config(checkpoint)
    return {
        "architectures": ["Eagle3DraftModel"],
        **_speculators("eagle3", checkpoint),
        "draft_vocab_size": config.draft_vocabulary,
        "norm_before_residual": config.norm_before_residual,
        "norm_before_fc": config.norm_before_fc,
        "fc_norm": config.fc_norm,
        "norm_output": config.recycle == "post_norm",
        "embed_requires_grad": False,
        "target_hidden_size": config.target_hidden,
        "eagle_aux_hidden_state_layer_ids": [_entering(tap) for tap in config.taps],
    }, _with_map(checkpoint, config)


def eagle_config(checkpoint: HeadCheckpoint) -> EagleConfig:
    """The configuration, which is an EAGLE head's."""
    assert isinstance(checkpoint.config, EagleConfig), checkpoint.family
    return checkpoint.config


def _config1(checkpoint: HeadCheckpoint) -> EagleConfig:
    """The configuration of an EAGLE-1 head. UsageError: what no layout of these can say."""
    config = eagle_config(checkpoint)
    if config.recycle != "pre_norm":
        raise UsageError(
            "layouts of EAGLE-1 cannot say that the head takes its normed hidden state back",
            "train it on the state before the norm, or write an EAGLE-3 head",
        )
    return config


def _flat3(checkpoint: HeadCheckpoint, architecture: str) -> Parts:
    config = eagle_config(checkpoint)
    if config.recycle != "pre_norm":
        raise UsageError(
            "this layout cannot say that the head takes its normed hidden state back",
            "use layout speculators",
        )
    flags = {
        "fc_norm": config.fc_norm,
        "norm_before_fc": config.norm_before_fc,
        "norm_before_residual": config.norm_before_residual,
    }
    tensors = {
        name.replace("layers.0.", "midlayer."): tensor
        for name, tensor in _with_map(checkpoint, config).items()
    }
    return {
        "architectures": [architecture],
        **_llama(config, checkpoint),
        "draft_vocab_size": config.draft_vocabulary,
        "target_hidden_size": config.target_hidden,
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": _either_side(config.taps),
            "use_aux_hidden_state": True,
        },
        **{name: True for name, on in flags.items() if on},
    }, tensors


def _llama(config: EagleConfig, checkpoint: HeadCheckpoint) -> dict[str, object]:
    return {
        "model_type": "llama",
        "hidden_size": config.hidden,
        "intermediate_size": config.intermediate,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_size,
        "vocab_size": config.vocabulary,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "rope_scaling": None if config.rope_scaling is None else dict(config.rope_scaling),
        "max_position_embeddings": config.max_positions,
        "hidden_act": config.activation,
        "attention_bias": config.attention_bias,
        "tie_word_embeddings": False,
        "torch_dtype": str(checkpoint.dtype).removeprefix("torch."),
    }


def _speculators(kind: str, checkpoint: HeadCheckpoint) -> dict[str, object]:
    proposal = {
        "proposal_type": "greedy",
        "speculative_tokens": 5,
        "verifier_accept_k": 1,
        "accept_tolerance": 0.0,
    }
    return {
        "speculators_model_type": kind,
        "speculators_version": SPECULATORS_VERSION,
        "speculators_config": {
            "algorithm": kind,
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": {"name_or_path": None, "architectures": []},
        },
        "tie_word_embeddings": False,
        "transformer_layer_config": _llama(eagle_config(checkpoint), checkpoint),
    }


def _with_map(checkpoint: HeadCheckpoint, config: EagleConfig) -> dict[str, Tensor]:
    """The tensors, with the draft vocabulary as offsets ``d2t`` and membership ``t2d``."""
    tensors = {**checkpoint.tensors, **offsets_of(checkpoint.tensors, config.vocabulary)}
    tensors.pop("target_ids", None)
    return tensors


def _entering(tap: Tap) -> int:
    return tap.layer + 1 if tap.side == "leaving" else tap.layer


def _either_side(taps: Sequence[Tap]) -> list[int]:
    """Layer ids for readers that take a first id of 1 for streams leaving layers, others entering.

    Raises:
        UsageError: taps that would be read one layer off.
    """
    entering = [_entering(tap) for tap in taps]
    if all(tap.side == "leaving" for tap in taps) and taps[0].layer == 1:
        return [tap.layer for tap in taps]
    if entering[0] == 1:
        raise UsageError(
            "this layout has no way to name the stream that enters layer 1",
            "use layout speculators",
        )
    return entering

"""Multi-token prediction layers in the target's own names, and in speculators' (ALGORITHMS 4.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from specbench.errors import UsageError
from specbench.models.heads.configs import HeadCheckpoint, MtpConfig
from specbench.models.heads.layouts.mtp_names import FRAMES, NEXTN_SHARED
from specbench.models.heads.layouts.mtp_switches import Switches, switches_of
from specbench.models.heads.writers.eagle import SPECULATORS_VERSION
from specbench.models.heads.writers.token_maps import offsets_of, stated

Parts = tuple[Mapping[str, object], Mapping[str, Tensor]]


def nextn(checkpoint: HeadCheckpoint) -> Parts:
    """Layer L behind the target's L layers, as DeepSeek-V3 and GLM-4.5 have it."""
    config = _config(checkpoint, "nextn")
    prefix = f"model.layers.{config.target.layers}."
    return _target(checkpoint, config), _renamed(checkpoint, prefix, "nextn", NEXTN_SHARED)


def mimo(checkpoint: HeadCheckpoint) -> Parts:
    """``model.mtp_layers.0``, as MiMo-7B has it."""
    config = _config(checkpoint, "mimo")
    tensors = _renamed(checkpoint, "model.mtp_layers.0.", "mimo", {})
    return _target(checkpoint, config), tensors


def speculators(checkpoint: HeadCheckpoint) -> Parts:
    """``mtp_layers.0`` beside a configuration of speculators."""
    config = _config(checkpoint, "speculators")
    proposal = {"proposal_type": "greedy", "speculative_tokens": 3}
    return {
        "architectures": ["MTPDraftModel"],
        "speculators_model_type": "mtp",
        "speculators_version": SPECULATORS_VERSION,
        "num_nextn_predict_layers": 1,
        **stated(checkpoint.tensors),
        "transformer_layer_config": _plain(config),
        "speculators_config": {
            "algorithm": "mtp",
            "default_proposal_method": "greedy",
            "proposal_methods": [proposal],
            "verifier": {"name_or_path": None, "architectures": []},
        },
        "tie_word_embeddings": False,
    }, _renamed(checkpoint, "mtp_layers.0.", "speculators", {})


def _config(checkpoint: HeadCheckpoint, layout: str) -> MtpConfig:
    """The configuration. UsageError where a reader of the layout would take other switches."""
    config = checkpoint.config
    assert isinstance(config, MtpConfig), checkpoint.family
    implied = switches_of(layout, config.target.model_type)
    own = Switches(config.family, config.order, config.recycle, config.zero_first)
    if implied != own:
        raise UsageError(
            f"layout {layout} means {implied}, the head has {own}",
            "use the layout of the head's own family",
        )
    return config


def _renamed(
    checkpoint: HeadCheckpoint, prefix: str, layout: str, shared: dict[str, str]
) -> dict[str, Tensor]:
    """Tensors in a layout's names; the map of a smaller vocabulary is EAGLE-3's, at the top."""
    assert isinstance(checkpoint.config, MtpConfig), checkpoint.family
    frame = {ours: theirs for theirs, ours in (FRAMES[layout] | shared).items()}
    tensors = offsets_of(checkpoint.tensors, checkpoint.config.target.vocabulary)
    for name, tensor in checkpoint.tensors.items():
        if name == "target_ids":
            continue
        if name in frame:
            tensors[prefix + frame[name]] = tensor
        elif name.startswith("layer."):
            tensors[prefix + name.removeprefix("layer.")] = tensor
        else:
            raise UsageError(
                f"layout {layout} has no place for {name}",
                "leave it out: embedding and output projection are then the target's",
            )
    return tensors


def _plain(config: MtpConfig) -> dict[str, Any]:
    """The target's configuration as JSON values."""
    given = config.target.config
    found = dict(given.to_dict()) if hasattr(given, "to_dict") else {}
    return found | {
        "model_type": config.target.model_type,
        "hidden_size": config.target.hidden,
        "num_hidden_layers": config.target.layers,
        "vocab_size": config.target.vocabulary,
    }


def _target(checkpoint: HeadCheckpoint, config: MtpConfig) -> dict[str, Any]:
    return _plain(config) | {"num_nextn_predict_layers": 1} | stated(checkpoint.tensors)

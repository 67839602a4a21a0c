"""What each method trains, which keys it reads, and its own defaults: published where known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FAMILIES = {
    "medusa1": "medusa",
    "medusa2": "medusa",
    "blockwise": "medusa",
    "eagle1": "eagle1",
    "eagle3": "eagle3",
    "mtp": "mtp",
    "distill": "model",
    "bigram": "table",
}
"""Method -> family of what it makes."""

DRAFTERS = {
    "medusa1": "medusa",
    "medusa2": "medusa",
    "blockwise": "blockwise",
    "eagle1": "eagle1",
    "eagle3": "eagle3",
    "mtp": "mtp",
    "distill": "draft_model",
    "bigram": "bigram",
}
"""Method -> drafter that runs it, and validates it."""

COUNTED = frozenset({"bigram"})
"""Methods that count answers and train nothing: they read none of [head], [capture] and [train]."""
UNROLLED = ("eagle1", "eagle3", "mtp")
"""Methods whose heads read their own states again."""
PARALLEL = ("medusa1", "medusa2", "blockwise")
"""Methods whose heads all read one state of the target."""
HEADS = (*UNROLLED, *PARALLEL)

READ_BY: dict[str, tuple[str, ...]] = {
    "head.layout": ("eagle1", "eagle3", "mtp", "medusa1", "blockwise"),
    "head.dtype": ("eagle1", "eagle3", "mtp", "medusa1", "blockwise", "distill"),
    "head.full": ("eagle1", "eagle3", "mtp", "medusa1", "blockwise"),
    "head.draft_vocabulary": HEADS,
    "head.heads": PARALLEL,
    "head.blocks": PARALLEL,
    "head.layers": ("distill",),
    "head.input_norm": ("eagle1",),
    "head.final_norm": ("eagle1",),
    "head.norm_before_fc": ("eagle3",),
    "head.fc_norm": ("eagle3",),
    "train.steps": UNROLLED,
    "train.noise": UNROLLED,
    "train.feature_weight": ("eagle1",),
    "train.law_weight": ("eagle1",),
    "train.decay": HEADS,
    "train.normalised": HEADS,
    "train.on_policy": ("distill",),
    "train.freeze_embeddings": ("distill",),
    "train.rank": ("medusa2",),
    "train.backbone_learning_rate": ("medusa2",),
    "train.head_weight": ("medusa2",),
    "train.warm_epochs": ("medusa2",),
}
"""Key -> methods that read it; what is not here is read by all."""

OF_NEW_NETWORKS = frozenset(
    {
        "head.draft_vocabulary",
        "head.heads",
        "head.blocks",
        "head.layers",
        "head.input_norm",
        "head.final_norm",
        "head.norm_before_fc",
        "head.fc_norm",
    }
)
"""Keys that say what a new network is like; one that ``head.start`` names is as it is."""

_CHAIN = {"options": {"tree": "chain"}}
"""Validated on chains, which cost little and are judged above temperature 0 too."""

DEFAULTS: dict[str, dict[str, dict[str, Any]]] = {
    # 2401.10774: weights 0.8 ** k over the heads, cross-entropy on tokens, nothing clipped.
    "medusa1": {
        "train": {"loss": "token_cross_entropy", "decay": 0.8, "clip_norm": 0.0},
        "validate": _CHAIN,
    },
    # The same with the backbone: heads first, then both, lambda_0 = 0.2 on the heads' loss.
    "medusa2": {
        "train": {"loss": "token_cross_entropy", "decay": 0.8, "head_weight": 0.2},
        "validate": _CHAIN,
    },
    # 1811.03115, section 6: the mean of all heads' losses.
    "blockwise": {"train": {"loss": "token_cross_entropy", "decay": 1.0, "normalised": True}},
    # 2401.15077, section 4.2: smooth L1 + 0.1 cross-entropy, noise, clip by value.
    "eagle1": {
        "train": {
            "steps": 1,
            "feature_weight": 1.0,
            "law_weight": 0.1,
            "noise": 0.1,
            "clip_norm": 0.0,
            "clip_value": 0.5,
        },
        "validate": _CHAIN,
    },
    # 2503.01840: seven steps, decay 0.8, clip by norm.
    "eagle3": {"train": {"steps": 7, "decay": 0.8}, "validate": _CHAIN},
    # FastMTP: three recursive steps, weights 0.6 ** k that sum to 1.
    "mtp": {"train": {"steps": 3, "decay": 0.6, "normalised": True}},
    # 2310.08461: forward KL as the start.
    "distill": {"train": {"learning_rate": 3e-4}},
    "bigram": {},
}
"""Method -> table -> key -> default, where it is another than the schema's."""


def over(values: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """``given``, and of ``values`` what it leaves out, table by table."""
    filled = {**values, **given}
    for name, inner in values.items():
        if isinstance(inner, Mapping) and isinstance(given.get(name), Mapping):
            filled[name] = over(inner, given[name])
    return filled

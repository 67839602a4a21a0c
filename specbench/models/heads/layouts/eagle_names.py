"""Names of EAGLE heads in published files, and the names they have here (ALGORITHMS 4.1-4.3)."""

from __future__ import annotations

import re

_PREFIXES = [
    (re.compile(r"^model\."), ""),  # SpecForge and NeMo save the module around the head
    (re.compile(r"^fusion_fc\."), "fc."),  # speculators' first EAGLE files
    (re.compile(r"^transformer\."), "layers.0."),
    (re.compile(r"^midlayer\."), "layers.0."),  # the EAGLE-3 authors
    (re.compile(r"^draft_id_to_target_id$"), "d2t"),  # vLLM
]
_LAYER = (
    r"layers\.\d+\.(self_attn\.[qkvo]_proj\.(weight|bias)|mlp\.(gate|up|down)_proj\.weight"
    r"|(input_layernorm|hidden_norm|post_attention_layernorm)\.weight)"
)
_KNOWN = re.compile(
    rf"{_LAYER}|fc\.(weight|bias)|fc_norm\.\d+\.weight|(input_norm|norm)\.weight"
    r"|(embed_tokens|lm_head)\.weight|d2t|t2d"
)


def canonical(name: str) -> str | None:
    """The name here of a stored tensor; None for one that is not known."""
    for pattern, ours in _PREFIXES:
        name = pattern.sub(ours, name)
    return name if _KNOWN.fullmatch(name) else None

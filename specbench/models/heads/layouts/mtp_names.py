"""Names of multi-token prediction modules in checkpoints, and the names they have here.

Source: ALGORITHMS 4.5. What is named neither in a frame nor in the shared tensors belongs to the
decoder layer inside and keeps its name.
"""

from __future__ import annotations

FRAMES: dict[str, dict[str, str]] = {
    "nextn": {
        "enorm.weight": "enorm.weight",
        "hnorm.weight": "hnorm.weight",
        "eh_proj.weight": "eh_proj.weight",
        "shared_head.norm.weight": "norm.weight",
    },
    "mimo": {
        "token_layernorm.weight": "enorm.weight",
        "hidden_layernorm.weight": "hnorm.weight",
        "input_proj.weight": "eh_proj.weight",
        "final_layernorm.weight": "norm.weight",
    },
}
FRAMES["speculators"] = FRAMES["mimo"]
FRAMES["qwen"] = {
    "mtp.pre_fc_norm_embedding.weight": "enorm.weight",
    "mtp.pre_fc_norm_hidden.weight": "hnorm.weight",
    "mtp.fc.weight": "eh_proj.weight",
    "mtp.norm.weight": "norm.weight",
}
"""Layout -> name in the file -> name here, of norms and projection around the layer.

Names follow the module's prefix; Qwen's stand outside of its layers and are whole.
"""

NEXTN_SHARED = {
    "embed_tokens.weight": "embed_tokens.weight",
    "shared_head.head.weight": "head.weight",
}
"""Copies of the target's embedding and output projection that DeepSeek's layer carries."""

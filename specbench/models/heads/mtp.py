"""The network of multi-token prediction layers (DeepSeek-V3, 2412.19437; ALGORITHMS 3.5).

Slot t takes the embedding of token t + 1 and the target's final hidden state of t, each through a
norm of its own, joined and projected to H; then a layer of the target's own kind, a norm and the
output projection. Shapes: T slots, H hidden size, Vd tokens that the head drafts.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn

from specbench.models.attention.called import attention_name
from specbench.models.heads.configs import MtpConfig
from specbench.models.heads.ends import Ends, LendingHead
from specbench.models.kv_pool import LayerGeometry
from specbench.models.load import LoadedModel
from specbench.models.packed import layer_geometry


class MtpHead(LendingHead):
    """Implements ``models.heads.packed.FeatureHead`` with one trained module, used at every step.

    Args:
        config: what the head is.
        target: its layers' kind and configuration are the head's; lends missing ends.
        names: the checkpoint's tensors.
        name: of the checkpoint, for messages.

    Raises:
        PrerequisiteError: an end is missing and the target's cannot stand in.
    """

    def __init__(
        self, config: MtpConfig, target: LoadedModel, names: Collection[str], name: str
    ) -> None:
        text = target.model.config.get_text_config()
        size = text.hidden_size
        sizes = size, text.vocab_size, config.draft_vocabulary
        super().__init__(Ends(*sizes, config.taps, names, name, "head"), target)
        self._config = config
        self._single = _single_layer(text)
        base = target.model.base_model
        norm = type(base.norm)
        self.enorm = norm(size, eps=text.rms_norm_eps)
        self.hnorm = norm(size, eps=text.rms_norm_eps)
        self.eh_proj = nn.Linear(2 * size, size, bias=False)
        self.layer = type(base.layers[-1])(self._single, 0)
        self.norm = norm(size, eps=text.rms_norm_eps)
        # Computed at once, also while weights are laid out without storage.
        with torch.device("cpu"):
            self.rotary = type(base.rotary_emb)(self._single)

    def geometry(self) -> list[LayerGeometry]:
        """KV shapes of the one layer."""
        return [layer_geometry(self._single)]

    def begin(self, features: Tensor) -> Tensor:
        """True hidden states [T, H] are taken as they are."""
        return features

    def states(self, ids: Tensor, hidden: Tensor, positions: Tensor, plan: object) -> Tensor:
        """Output [T, H] of the layer; arguments as ``FeatureHead.states``."""
        embedded = self.embed(ids)
        if self._config.zero_first:
            embedded = embedded.masked_fill((positions == 0)[:, None], 0)
        parts = [self.enorm(embedded), self.hnorm(hidden)]
        if self._config.order == "hidden_first":
            parts.reverse()
        stream = self.eh_proj(torch.cat(parts, -1))[None]
        rotary = self.rotary(stream, positions[None])
        return self.layer(stream, attention_mask=None, position_embeddings=rotary, plan=plan)[0]

    def logits(self, states: Tensor) -> Tensor:
        """[M, Vd] of rows [M, H]."""
        return self.project(self.norm(states))

    def recycle(self, states: Tensor, hidden: Tensor) -> Tensor:
        """What the next step takes: the output, the normed output, or the target's state again."""
        if self._config.recycle == "target":
            return hidden
        return self.norm(states) if self._config.recycle == "post_norm" else states


def _single_layer(text: Any) -> Any:
    """The target's configuration for one layer: attention over everything, experts where it has."""
    single = copy.deepcopy(text)
    if getattr(single, "layer_types", None):
        single.layer_types = ["full_attention"]
    single.num_hidden_layers = 1
    if hasattr(single, "first_k_dense_replace"):
        single.first_k_dense_replace = 0
    single._attn_implementation = attention_name()
    return single

"""What the networks of EAGLE-1 and EAGLE-3 share: Llama layers, a last norm, both ends."""

from __future__ import annotations

from collections.abc import Collection

from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from specbench.models.heads.configs import EagleConfig
from specbench.models.heads.ends import Ends, LendingHead
from specbench.models.heads.llama_layers import llama_config, rotary_embedding
from specbench.models.kv_pool import LayerGeometry
from specbench.models.load import LoadedModel


class EagleHead(LendingHead):
    """The parts behind and around the layers, which a network lays out itself.

    Args:
        config: what the head is.
        target: lends missing ends.
        names: the checkpoint's tensors.
        name: of the checkpoint, for messages.

    Raises:
        PrerequisiteError: sizes that cannot run.
    """

    def __init__(
        self, config: EagleConfig, target: LoadedModel, names: Collection[str], name: str
    ) -> None:
        sizes = config.hidden, config.vocabulary, config.draft_vocabulary
        super().__init__(Ends(*sizes, config.taps, names, name), target)
        self.llama: LlamaConfig = llama_config(config, name)
        self.norm = rms_norm(config.hidden, config) if config.final_norm else nn.Identity()
        self.rotary = rotary_embedding(self.llama)
        self._config = config

    def geometry(self) -> list[LayerGeometry]:
        """KV shapes per layer."""
        size = self._config.head_size
        return [LayerGeometry(self._config.kv_heads, size, size)] * self._config.layers

    def logits(self, states: Tensor) -> Tensor:
        """[M, Vd] of rows [M, H]."""
        return self.project(self.norm(states))

    def recycle(self, states: Tensor, hidden: Tensor) -> Tensor:
        """The output [T, H], before or behind the last norm as the head was trained."""
        return self.norm(states) if self._config.recycle == "post_norm" else states


def rms_norm(size: int, config: EagleConfig) -> LlamaRMSNorm:
    """A norm of the head."""
    return LlamaRMSNorm(size, eps=config.norm_eps)

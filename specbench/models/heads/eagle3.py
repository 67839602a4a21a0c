"""The network of EAGLE-3 heads (Li et al. 2503.01840; ALGORITHMS 3.3).

Residual streams of a low, a middle and a high layer are projected to one hidden state, for true
features alone; a drafting step takes the head's own output instead. Embedding and hidden state are
normed and joined as input of the first layer's attention. The output projection may know a part of
the target's vocabulary. Shapes: T slots, F = taps * Ht, H hidden size of the head.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor, nn

from specbench.models.heads.configs import EagleConfig
from specbench.models.heads.eagle import EagleHead, rms_norm
from specbench.models.heads.llama_layers import JoinedLayer, decoder_layer
from specbench.models.load import LoadedModel


class Eagle3Head(EagleHead):
    """Implements ``models.heads.packed.FeatureHead``.

    Args:
        config: what the head is; version 3.
        target: lends missing ends.
        names: the checkpoint's tensors.
        name: of the checkpoint, for messages.

    Raises:
        PrerequisiteError: sizes that cannot run.
    """

    def __init__(
        self, config: EagleConfig, target: LoadedModel, names: Collection[str], name: str
    ) -> None:
        super().__init__(config, target, names, name)
        taps, width = len(config.taps), config.target_hidden
        self.input_norm = rms_norm(taps * width, config) if config.norm_before_fc else nn.Identity()
        self.fc_norm = nn.ModuleList(
            [rms_norm(width, config) for _ in range(taps)] if config.fc_norm else []
        )
        self.fc = nn.Linear(taps * width, config.hidden, bias=config.fc_bias)
        first = JoinedLayer(self.llama, config.norm_before_residual, names)
        rest = [decoder_layer(self.llama, i, names) for i in range(1, config.layers)]
        self.layers = nn.ModuleList([first, *rest])

    def begin(self, features: Tensor) -> Tensor:
        """The target's features [T, F] as one hidden state [T, H]."""
        if self.fc_norm:
            parts = features.chunk(len(self.fc_norm), -1)
            normed = [norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)]
            features = torch.cat(normed, -1)
        return self.fc(self.input_norm(features))

    def states(self, ids: Tensor, hidden: Tensor, positions: Tensor, plan: object) -> Tensor:
        """Output [T, H] of the layers; arguments as ``FeatureHead.states``."""
        stream = hidden[None]
        rotary = self.rotary(stream, positions[None])
        stream = self.layers[0](self.embed(ids)[None], stream, rotary, plan)
        for layer in self.layers[1:]:
            stream = layer(stream, position_embeddings=rotary, plan=plan)
        return stream[0]

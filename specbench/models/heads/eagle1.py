"""The network of EAGLE-1 and EAGLE-2 heads (Li et al. 2401.15077, 2406.16858; ALGORITHMS 3.1).

Slot t joins the embedding of token t + 1 with the target's final hidden state of t, in this order,
projects them to H and runs Llama layers, the first without an input norm. What comes out stands for
the target's next hidden state: the output projection reads it as it is, and the next drafting step
takes it in the place of a true one. Shapes: T slots, H hidden size of head and target.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor, nn

from specbench.errors import PrerequisiteError
from specbench.models.heads.configs import EagleConfig
from specbench.models.heads.eagle import EagleHead
from specbench.models.heads.llama_layers import decoder_layer
from specbench.models.load import LoadedModel


class Eagle1Head(EagleHead):
    """Implements ``models.heads.packed.FeatureHead``.

    Args:
        config: what the head is; version 1.
        target: lends missing ends.
        names: the checkpoint's tensors.
        name: of the checkpoint, for messages.

    Raises:
        PrerequisiteError: sizes that cannot run.
    """

    def __init__(
        self, config: EagleConfig, target: LoadedModel, names: Collection[str], name: str
    ) -> None:
        if config.hidden != config.target_hidden or len(config.taps) != 1:
            raise PrerequisiteError(
                f"{name}: an EAGLE-1 head of hidden size {config.hidden} cannot feed itself, "
                f"because it reads {len(config.taps)} hidden states of size {config.target_hidden}",
                "use a head that was made for this target",
            )
        super().__init__(config, target, names, name)
        self.fc = nn.Linear(2 * config.hidden, config.hidden, bias=config.fc_bias)
        self.layers = nn.ModuleList(
            decoder_layer(self.llama, i, names) for i in range(config.layers)
        )
        if not config.input_norm:
            self.layers[0].input_layernorm = nn.Identity()

    def begin(self, features: Tensor) -> Tensor:
        """True hidden states [T, H] are taken as they are."""
        return features

    def states(self, ids: Tensor, hidden: Tensor, positions: Tensor, plan: object) -> Tensor:
        """Predicted hidden states [T, H]; arguments as ``FeatureHead.states``."""
        stream = self.fc(torch.cat([self.embed(ids), hidden], -1))[None]
        rotary = self.rotary(stream, positions[None])
        for layer in self.layers:
            stream = layer(stream, position_embeddings=rotary, plan=plan)
        return stream[0]

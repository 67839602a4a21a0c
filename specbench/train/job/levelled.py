"""Norms of a new EAGLE-3 head that bring all dimensions of the states it reads to one size.

A language model's residual stream has a few dimensions many times as large as the rest, and at
some tokens, the first above all, a few that are a thousand times as large (Sun and others
2402.17762, "massive activations"). Read as they are, they drown the others for many steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specbench.models.heads.configs import EagleConfig, HeadCheckpoint
from specbench.train.capture.corpus import Conversation, Corpus

SAMPLE = 64
"""Conversations, evenly spaced over all, whose states are looked at."""
ORDINARY = 2.0
"""Rows larger than this many times the median row are not ordinary ones, and do not count."""


def levelled(
    checkpoint: HeadCheckpoint, corpus: Corpus, conversations: Sequence[Conversation]
) -> HeadCheckpoint:
    """The head with weights of its norms over each hidden state, ``fc_norm``, if it has them.

    Behind them nothing of the states' own basis is left that the projection could pass on: it
    starts from random weights.

    Args:
        checkpoint: a new one, in float32.
        corpus: with the states of its taps.
        conversations: that are trained on, in an order that all processes agree on.
    """
    config = checkpoint.config
    if not (isinstance(config, EagleConfig) and config.version == 3 and config.fc_norm):
        return checkpoint
    sample = corpus.load(conversations[:: max(1, len(conversations) // SAMPLE)])
    tensors = dict(checkpoint.tensors)
    for place, tap in enumerate(config.taps):
        tensors[f"fc_norm.{place}.weight"] = levelling(sample.states[tap])
    shape = tensors["fc.weight"].shape
    chance = torch.Generator().manual_seed(shape[1])
    tensors["fc.weight"] = torch.randn(shape, generator=chance) * shape[1] ** -0.5
    return replace(checkpoint, tensors=tensors)


def levelling(states: Tensor) -> Tensor:
    """Weights [H] of a root-mean-square norm behind which all dimensions of states [T, H] are 1."""
    sizes = states.square().mean(1).sqrt()
    ordinary = states[sizes <= ORDINARY * sizes.median()]
    normed = ordinary / ordinary.square().mean(1, keepdim=True).sqrt()
    spread = normed.square().mean(0).sqrt()
    # A dimension that is hardly used stays small.
    return 1 / spread.clamp(min=float(spread.median()) / 10)

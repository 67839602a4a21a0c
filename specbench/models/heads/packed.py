"""A head that drafts from the target's features, as one packed ragged forward over the KV pool.

EAGLE and MTP heads differ in their modules alone; how they run, keep KV and map their vocabulary is
the same. Shapes: T packed tokens, M wanted rows, F width of the target's features, H hidden size of
the head, Vd its vocabulary, V the target's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from specbench.decoding.protocols import Tap
from specbench.models.attention.backend import Attention, Plan
from specbench.models.attention.sdpa import SDPA
from specbench.models.graphs.captured import Graphs
from specbench.models.graphs.record import Outputs
from specbench.models.kv_pool import LayerGeometry
from specbench.models.packed_batch import PackedBatch
from specbench.models.parallel.group import Group
from specbench.models.pooled import Pooled


class FeatureHead(Protocol):
    """A head's network, an ``nn.Module`` in eval mode.

    Slot t takes the token x at t + 1 and a hidden state of t, and predicts the token at t + 2.

    Attributes:
        taps: hidden states of the target, joined in this order to F columns.
        target_ids: int64 [Vd] the target's id of every row of logits; None = the same ids.
        dtype, device: of the weights.
        weight_bytes: bytes of tensors that are not the target's; copies of its rows count.
    """

    taps: tuple[Tap, ...]
    target_ids: Tensor | None
    dtype: torch.dtype
    device: torch.device
    weight_bytes: int

    def geometry(self) -> list[LayerGeometry]:
        """KV shapes per layer."""
        ...

    def begin(self, features: Tensor) -> Tensor:
        """The target's features [T, F] as hidden states [T, H] of the first drafting step."""
        ...

    def states(self, ids: Tensor, hidden: Tensor, positions: Tensor, plan: object) -> Tensor:
        """Output [T, H] of the layers, before any last norm.

        Args:
            ids: int64 [T] the token behind each slot.
            hidden: [T, H] from ``begin`` or ``recycle``.
            positions: int64 [T], of the hidden states.
            plan: handed to the attention, see ``models.attention.called``.
        """
        ...

    def logits(self, states: Tensor) -> Tensor:
        """[M, Vd] of chosen output rows [M, H]."""
        ...

    def recycle(self, states: Tensor, hidden: Tensor) -> Tensor:
        """What the next drafting step takes as hidden state [T, H], from output and input."""
        ...


class PackedHead(Pooled):
    """Runs a head for one owner of the pool.

    Args:
        head: its network.
        owner: name of its storage in the pool.
        vocabulary: V.
        padding: bool [V] of rows without a token, or None.
        attention: the back end.
        graphs: captured forwards, or None.
        group: processes that share its layers.
    """

    def __init__(
        self,
        head: FeatureHead,
        owner: str,
        vocabulary: int,
        padding: Tensor | None = None,
        attention: Attention = SDPA,
        graphs: Graphs | None = None,
        group: Group | None = None,
    ) -> None:
        super().__init__(owner, head.geometry(), head.dtype, attention, graphs, group)
        self.head = head
        self.taps = head.taps
        self.weight_bytes = head.weight_bytes
        self.vocabulary = vocabulary
        self._padding = padding

    def features(self, taps: Mapping[Tap, Tensor], rows: Tensor | slice) -> Tensor:
        """Tapped hidden states of chosen packed rows, joined: [n, F]."""
        return torch.cat([taps[tap][rows] for tap in self.taps], -1).to(self.dtype)

    @torch.inference_mode()
    def forward(self, batch: PackedBatch, hidden: Tensor, *, fresh: bool) -> tuple[Tensor, Tensor]:
        """One forward over slots.

        Args:
            batch: ids are the tokens behind the slots, positions those of the hidden states.
            hidden: features [T, F] where ``fresh``, else hidden states [T, H] of a step before.
            fresh: whether ``hidden`` are true features of the target.

        Returns:
            logits [M, V] of the wanted rows, -inf outside the head's vocabulary; and the hidden
            states [T, H] that the next step takes.
        """

        def run(
            ids: Tensor, positions: Tensor, logit_rows: Tensor, plan: Plan, given: Tensor | None
        ) -> Outputs:
            assert given is not None
            entering = self.head.begin(given) if fresh else given
            states = self.head.states(ids, entering, positions, plan)
            logits = self._widen(self.head.logits(states[logit_rows]))
            return logits, self.head.recycle(states, entering)

        logits, left = self.compute(fresh, batch, run, hidden, fresh=fresh)
        return logits, left

    @torch.inference_mode()
    def follow(self, batch: PackedBatch, hidden: Tensor | None, fresh: bool) -> None:
        """Take part in a forward of another process; the logits are that one's alone."""
        assert hidden is not None
        batch = batch.to(self.pool.device)
        entering = self.head.begin(hidden) if fresh else hidden
        self.head.states(batch.ids, entering, batch.positions, self.plan(batch))

    def _widen(self, logits: Tensor) -> Tensor:
        """Logits in the target's vocabulary."""
        if self.head.target_ids is not None:
            wide = logits.new_full((len(logits), self.vocabulary), -torch.inf)
            logits = wide.index_copy_(1, self.head.target_ids, logits)
        if self._padding is not None and logits.shape[1] == len(self._padding):
            logits = logits.masked_fill(self._padding, -torch.inf)
        return logits

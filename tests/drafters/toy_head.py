"""A small head over the target's features, and its slow definition without KV and batches."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from specbench.decoding.protocols import Tap
from specbench.models.attention.called import attend
from specbench.models.heads.configs import FINAL
from specbench.models.kv_pool import LayerGeometry
from tests.models.families import SIZES, VOCABULARY

HIDDEN, HEADS, KV_HEADS, SIZE = 24, 4, 2, 6
LOW_MID_HIGH = (Tap(1, "entering"), Tap(1, "leaving"), Tap(2, "leaving"))


class ToyHead(nn.Module):
    """One attention layer with rotary positions behind a projection of [token, hidden state].

    Args:
        taps: read from the target.
        target_ids: tokens it knows; None for all.
        keeps_hidden: the next step takes the hidden state of this one again (MTP's ``target``).
        scale: of the logits.
    """

    layer_idx = 0

    def __init__(
        self,
        taps: tuple[Tap, ...] = (FINAL,),
        target_ids: Tensor | None = None,
        keeps_hidden: bool = False,
        scale: float = 4.0,
    ) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.taps = taps
        self.target_ids = target_ids
        self.dtype, self.device = torch.float32, torch.device("cpu")
        self.weight_bytes = 0
        self._keeps_hidden = keeps_hidden
        self._scale = scale
        known = VOCABULARY if target_ids is None else len(target_ids)
        self.embed = nn.Embedding(VOCABULARY, HIDDEN)
        self.enter = nn.Linear(len(taps) * SIZES["hidden_size"], HIDDEN, bias=False)
        self.join = nn.Linear(2 * HIDDEN, HIDDEN, bias=False)
        self.query = nn.Linear(HIDDEN, HEADS * SIZE, bias=False)
        self.key = nn.Linear(HIDDEN, KV_HEADS * SIZE, bias=False)
        self.value = nn.Linear(HIDDEN, KV_HEADS * SIZE, bias=False)
        self.out = nn.Linear(HEADS * SIZE, HIDDEN, bias=False)
        self.words = nn.Linear(HIDDEN, known, bias=False)
        self.requires_grad_(False)
        for parameter in self.parameters():
            parameter.copy_(torch.randn(parameter.shape) * parameter.shape[1] ** -0.5)

    def geometry(self) -> list[LayerGeometry]:
        return [LayerGeometry(KV_HEADS, SIZE, SIZE)]

    def begin(self, features: Tensor) -> Tensor:
        # Residual streams are large; what is compared to 1e-4 must not be.
        return self.enter(features / features.square().mean(-1, keepdim=True).sqrt())

    def states(self, ids: Tensor, hidden: Tensor, positions: Tensor, plan: object) -> Tensor:
        entering = self.join(torch.cat([self.embed(ids), hidden], -1))
        query, key, value = (
            part(entering).view(len(ids), -1, SIZE).transpose(0, 1)
            for part in (self.query, self.key, self.value)
        )
        query, key = rotated(query, positions), rotated(key, positions)
        seen, _ = attend(self, query[None], key[None], value[None], None, plan=plan)
        return torch.tanh(entering + self.out(seen[0].reshape(len(ids), -1)))

    def logits(self, states: Tensor) -> Tensor:
        return self._scale * self.words(states)

    def recycle(self, states: Tensor, hidden: Tensor) -> Tensor:
        return hidden if self._keeps_hidden else states


class SlowToy:
    """The same head as a definition: whole sequences, attention written out head by head."""

    def __init__(self, head: ToyHead) -> None:
        self._head = head
        self.ids = head.target_ids
        self.begin, self.logits, self.recycle = head.begin, head.logits, head.recycle

    def states(self, ids: Tensor, hidden: Tensor, positions: Tensor, visible: Tensor) -> Tensor:
        head, count = self._head, len(ids)
        entering = head.join(torch.cat([head.embed(ids), hidden], -1))
        key = rotated(head.key(entering).view(count, KV_HEADS, SIZE).transpose(0, 1), positions)
        value = head.value(entering).view(count, KV_HEADS, SIZE).transpose(0, 1)
        query = rotated(head.query(entering).view(count, HEADS, SIZE).transpose(0, 1), positions)
        seen = []
        for one in range(HEADS):
            shared = one // (HEADS // KV_HEADS)
            scores = query[one] @ key[shared].T * SIZE**-0.5
            seen.append(scores.masked_fill(~visible, -torch.inf).softmax(-1) @ value[shared])
        return torch.tanh(entering + head.out(torch.cat(seen, -1)))


def rotated(rows: Tensor, positions: Tensor) -> Tensor:
    """Pairs of rows [heads, n, SIZE] turned by their positions."""
    half = SIZE // 2
    angle = positions[:, None].float() * 20.0 ** -(torch.arange(half, device=rows.device) / half)
    first, second = rows[..., :half], rows[..., half:]
    return torch.cat(
        [first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()], -1
    )

"""Attention of a head that is unrolled over several drafting steps in training.

With one step it is plain causal attention over whole conversations, for any packed model.

At step 0 a slot sees the slots of its conversation up to itself, as at inference. At step s its
query stands s places further on: it sees the same slots of step 0, whose features were true, and of
each later step its own slot alone, which is the chain that was drafted from there (EAGLE-3's
training-time test, Li et al. 2503.01840, section 3; ALGORITHMS 5.3). So no mask over all steps is
needed: every later step adds one column.

Shapes: Hq query heads, Hkv key-value heads, G = Hq / Hkv, S slots, n of a conversation, D head
size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from specbench.errors import UsageError


class Unrolled:
    """Keys and values of the steps so far, shared by the layers of one head.

    Args:
        lengths: slots per conversation; they follow each other.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self._lengths = list(lengths)
        self._past: dict[int, list[tuple[Tensor, Tensor]]] = {}

    def run(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scaling: float,
        window: int | None,
    ) -> Tensor:
        """Attend; query [1, Hq, S, D], key and value [1, Hkv, S, D]; returns [1, S, Hq, D].

        Raises:
            UsageError: a conversation that is longer than a layer's sliding window.
        """
        past = self._past.setdefault(layer, [])
        past.append((key, value))
        reach = max(self._lengths) + len(past) - 1
        if window is not None and reach > window:
            raise UsageError(
                f"a conversation reaches over {reach} places, and a layer sees no more than "
                f"{window} of them at a time, which training does not follow",
                "lower data.max_prompt_tokens or data.max_new_tokens, in a data folder of its own",
            )
        parts = []
        first = 0
        for count in self._lengths:
            last = first + count
            steps = [(k[:, :, first:last], v[:, :, first:last]) for k, v in past]
            parts.append(_attend(query[:, :, first:last], steps, scaling))
            first = last
        return torch.cat(parts, 2).transpose(1, 2)


def _attend(query: Tensor, steps: Sequence[tuple[Tensor, Tensor]], scaling: float) -> Tensor:
    """One conversation: query [1, Hq, n, D], keys and values per step; returns [1, Hq, n, D]."""
    keys, values = steps[0]
    if len(steps) == 1:
        return functional.scaled_dot_product_attention(
            query, keys, values, is_causal=True, scale=scaling, enable_gqa=True
        )
    batch, heads, count, size = query.shape
    groups = heads // keys.shape[1]
    # Query heads that share keys lie together: [1, Hkv, G, n, D].
    folded = query.reshape(batch, keys.shape[1], groups, count, size)
    scores = [folded @ keys[:, :, None].transpose(-1, -2)]
    hidden = torch.ones(count, count, dtype=torch.bool, device=query.device).triu(1)
    scores[0] = scores[0].masked_fill(hidden, -torch.inf)
    for key, _ in steps[1:]:
        scores.append((folded * key[:, :, None]).sum(-1, keepdim=True))
    shares = (torch.cat(scores, -1) * scaling).softmax(-1)
    attended = shares[..., :count] @ values[:, :, None]
    for place, (_, value) in enumerate(steps[1:]):
        attended = attended + shares[..., count + place, None] * value[:, :, None]
    return attended.reshape(batch, heads, count, -1)

"""What a student says itself, and what the target says of it (DistillSpec, 2310.08461, section 3).

Gradients do not flow through sampling: tokens are drawn first, then both models run over them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from specbench.models.heads.configs import FINAL
from specbench.models.kv_pool import KVPool
from specbench.models.load import LoadedModel
from specbench.models.packed import PackedModel
from specbench.models.packed_batch import Segment, pack
from specbench.train.capture.corpus import Batch
from specbench.train.methods.models import shared_copy, states_of
from specbench.train.methods.vocabulary import DraftVocabulary

ROWS = 512
"""Rows of the target's logits that are held at a time."""


def sampled(
    model: Any,
    padding: Tensor | None,
    prompts: Sequence[Sequence[int]],
    counts: Sequence[int],
    ends: Collection[int],
    chance: torch.Generator,
) -> list[list[int]]:
    """Continuations at temperature 1, up to a number of tokens each or to one that ends an answer.

    Args:
        model: a transformers model; its attention becomes that of packed batches.
        padding: bool [V] of rows without a token, or None.
        prompts: at least one token each.
        counts: most tokens of each, at least 1.
        ends: tokens that end an answer.
        chance: on the CPU; one number is drawn per prompt and step, whoever has ended.
    """
    packed = PackedModel(model, "student", padding)
    device = next(model.parameters()).device
    capacity = max(len(p) + n for p, n in zip(prompts, counts, strict=True))
    pool = KVPool(len(prompts), capacity, packed.dtype, device)
    pool.add_owner(packed.owner, packed.geometry())
    packed.use(pool)
    said: list[list[int]] = [[] for _ in prompts]
    going = list(range(len(prompts)))
    while going:
        fed = [said[i][-1:] or list(prompts[i]) for i in going]
        starts = [len(prompts[i]) + len(said[i]) - 1 if said[i] else 0 for i in going]
        segments = [
            Segment(i, start, len(new)) for i, start, new in zip(going, starts, fed, strict=True)
        ]
        ids = torch.tensor([token for new in fed for token in new], device=device)
        # Keys and values lie in the pool in the model's own type, whatever runs around it.
        with torch.autocast(device.type, enabled=False):
            logits, _ = packed.forward(pack(segments, ids, "last"))
        drawn = torch.rand(len(prompts), generator=chance, dtype=torch.float64)[going]
        for i, token in zip(going, _draw(logits, drawn.to(device)), strict=True):
            said[i].append(token)
        going = [i for i in going if len(said[i]) < counts[i] and said[i][-1] not in ends]
    packed.forget()
    return said


def _draw(logits: Tensor, uniform: Tensor) -> list[int]:
    """A token per row [n, V], where its uniform number [n] falls in the cumulated law."""
    sums = logits.double().softmax(1).cumsum(1)
    places = (sums <= (uniform * sums[:, -1])[:, None]).sum(1)
    tokens: list[int] = places.clamp(max=logits.shape[1] - 1).tolist()
    return tokens


class FrozenTarget:
    """The target over conversations that were not captured.

    Args:
        target: its modules are copied, its tensors are shared.
        vocabulary: all of the target's tokens.
    """

    def __init__(self, target: LoadedModel, vocabulary: DraftVocabulary) -> None:
        self._model = shared_copy(target.model)
        self._vocabulary = vocabulary

    @torch.no_grad()
    def batch(self, ids: Tensor, lengths: Sequence[int], answers: Sequence[int]) -> Batch:
        """Conversations as if they had been captured; int64 ids [T] on the target's device."""
        vocabulary = self._vocabulary
        with torch.autocast(ids.device.type, enabled=False):
            final = states_of(self._model, ids, lengths).float()
            sums, best = [], []
            for part in final.split(ROWS):
                logits = functional.linear(part, vocabulary.projection, vocabulary.bias)
                logits = vocabulary.drafted(logits)
                sums.append(logits.logsumexp(1))
                best.append(logits.argmax(1))
        states = {FINAL: final}
        return Batch(ids, tuple(lengths), tuple(answers), states, torch.cat(sums), torch.cat(best))

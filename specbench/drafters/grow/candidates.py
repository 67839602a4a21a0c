"""The children that a row offers: its best tokens in a fixed order, and the numbers of its draws.

Shapes: n rows, c candidates, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from specbench.decoding.random import Stream, uniforms
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.tree import PAD

_BLOCK = 128
"""Ids whose largest logit is found at once."""


def sampling_name(sampled: bool) -> str:
    """The value of the option ``sampling`` that means this."""
    return "sampled" if sampled else "greedy"


def best_tokens(logits: Tensor, count: int) -> Tensor:
    """int64 [n, count] ids by falling logit, of equals the lowest first, as ``argmax`` does.

    Args:
        logits: [n, V]; a token at -inf is no candidate.
        count: how many; ``PAD`` where a row has fewer.
    """
    width = min(count, logits.shape[1])
    # topk leaves open which of equals it takes and in which order. One more value tells whether
    # equals are left out; those that are in are sorted by id.
    values, ids = _largest(logits, min(width + 1, logits.shape[1]))
    last = values[:, width - 1]
    crowded = (values[:, width:] == last[:, None]).any(1) & (last > -torch.inf)
    values, ids = values[:, :width], ids[:, :width]
    if bool(crowded.any()):
        whole = logits[crowded].sort(stable=True, dim=1, descending=True)
        values[crowded], ids[crowded] = whole.values[:, :width], whole.indices[:, :width]
    ids, by_id = ids.sort(1)
    values, order = values.gather(1, by_id).sort(stable=True, dim=1, descending=True)
    ids = torch.where(values == -torch.inf, PAD, ids.gather(1, order))
    return torch.nn.functional.pad(ids, (0, count - width), value=PAD)


def _largest(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The values [n, count] of ``topk`` and ids of theirs; which of equals is left open.

    No more than ``count`` blocks of the row hold values that belong to them: those of the largest
    maxima. A maximum costs less per value than a selection.
    """
    blocks = logits.shape[1] // _BLOCK
    if blocks < 2 * count:
        values, ids = logits.topk(count, dim=1)
        return values, ids
    whole = blocks * _BLOCK
    lines = logits[:, :whole].unflatten(1, (blocks, _BLOCK))
    chosen = lines.amax(2).topk(count, dim=1).indices
    each = torch.arange(len(logits), device=logits.device)[:, None]
    # What is behind the last whole block is looked through as well.
    left = torch.cat([lines[each, chosen].flatten(1), logits[:, whole:]], 1)
    values, places = left.topk(count, dim=1)
    tail = places - count * _BLOCK
    block = chosen.gather(1, (places // _BLOCK).clamp(max=count - 1))
    return values, torch.where(tail < 0, block * _BLOCK + places % _BLOCK, whole + tail)


def draft_numbers(rows: Sequence[DecodedSequence], nodes: Sequence[Sequence[int]]) -> Tensor:
    """float64 [n, c] numbers of the draft stream, each keyed by (request seed, step, node).

    Args:
        rows: [n] the request of each row.
        nodes: [n, c] the node that each number draws; no two share one.
    """
    seeds = np.array([row.request.seed for row in rows], dtype=np.uint64)[:, None]
    steps = np.array([row.step for row in rows], dtype=np.uint64)[:, None]
    return torch.from_numpy(uniforms(seeds, Stream.DRAFT, steps, np.array(nodes)))

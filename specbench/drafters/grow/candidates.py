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


def best_tokens(logits: Tensor, count: int) -> Tensor:
    """int64 [n, count] ids by falling logit, of equals the lowest first, as ``argmax`` does.

    Args:
        logits: [n, V]; a token at -inf is no candidate.
        count: how many; ``PAD`` where a row has fewer.
    """
    width = min(count, logits.shape[1])
    # topk leaves open which of equals it takes and in which order. One more value tells whether
    # equals are left out; those that are in are sorted by id.
    values, ids = logits.topk(min(width + 1, logits.shape[1]), dim=1)
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


def draft_numbers(rows: Sequence[DecodedSequence], nodes: Sequence[Sequence[int]]) -> Tensor:
    """float64 [n, c] numbers of the draft stream, each keyed by (request seed, step, node).

    Args:
        rows: [n] the request of each row.
        nodes: [n, c] the node that each number draws; no two share one.
    """
    seeds = np.array([row.request.seed for row in rows], dtype=np.uint64)[:, None]
    steps = np.array([row.step for row in rows], dtype=np.uint64)[:, None]
    return torch.from_numpy(uniforms(seeds, Stream.DRAFT, steps, np.array(nodes)))

"""Packed batches that captured forwards are tried on."""

import torch

from specbench.models.packed_batch import Segment, pack

CPU = torch.device("cpu")
SLABS, CAPACITY = 4, 64
TREE = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]], dtype=torch.bool)
DEPTHS = torch.tensor([0, 1, 1, 2])


def batch(lines, logits="all"):
    """(slab, start, tokens, tree?) per request."""
    segments = [
        Segment(slab, start, len(ids), TREE if tree else None, DEPTHS if tree else None)
        for slab, start, ids, tree in lines
    ]
    return pack(segments, torch.tensor([i for _, _, ids, _ in lines for i in ids]), logits)


PROMPTS = [(0, 0, [5, 6, 7, 8, 9], False), (1, 0, [3, 1], False), (3, 0, [11, 2, 4], False)]

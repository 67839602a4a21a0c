"""How many tokens of a head's greedy chains are right, from every place of known outputs."""

from __future__ import annotations

from dataclasses import replace

import torch

from specbench.models.heads.build import build_feature_head
from specbench.models.heads.configs import HeadCheckpoint
from specbench.models.heads.packed import PackedHead
from specbench.models.kv_pool import KVPool
from specbench.models.packed_batch import Segment, pack
from tests.models.heads.overfit import Overfitted, features_of

K = 4


def right_tokens(
    found: Overfitted, checkpoint: HeadCheckpoint | None = None, moved: int = 0
) -> float:
    """Mean count of leading right tokens of drafts of ``K``.

    Args:
        found: whose outputs are drafted.
        checkpoint: run in the place of the trained one.
        moved: by how much the positions of recycled states are off.
    """
    checkpoint = checkpoint or found.checkpoint
    target = found.target
    features = features_of(target, found.lines, checkpoint.config.taps)
    # Every place of every output is a request: what is committed there, then a draft.
    places = [
        (number, length)
        for number, line in enumerate(found.lines)
        for length in range(len(found.prompts[number]) + 1, len(line) - K + 1)
    ]
    head = PackedHead(build_feature_head(checkpoint, target), "head", target.config.vocab_size)
    pool = KVPool(len(places), 40, torch.float32, torch.device("cpu"))
    pool.add_owner("head", head.geometry())
    head.use(pool)
    segments = [Segment(slab, 0, length - 1) for slab, (_, length) in enumerate(places)]
    ids = [token for number, length in places for token in found.lines[number][1:length]]
    entering = torch.cat([features[number][: length - 1] for number, length in places])
    logits, hidden = head.forward(pack(segments, torch.tensor(ids), "last"), entering, fresh=True)
    hidden = hidden[torch.tensor([s.count for s in segments]).cumsum(0) - 1]
    good = torch.ones(len(places), dtype=torch.bool)
    total = 0
    for step in range(K):
        token = logits.argmax(1)
        good &= token == torch.tensor([found.lines[n][length + step] for n, length in places])
        total += int(good.sum())
        segments = [Segment(slab, length - 1 + step, 1) for slab, (_, length) in enumerate(places)]
        batch = pack(segments, token, "all")
        batch = replace(batch, positions=batch.positions + moved)
        logits, hidden = head.forward(batch, hidden, fresh=False)
    return total / len(places)

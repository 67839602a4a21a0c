"""Random segments of trees and chains, and their attention as one loop over every score."""

import math

import torch

from specbench.models.kv_pool import KVPool, LayerGeometry
from specbench.models.packed_batch import Segment, pack

CPU = torch.device("cpu")
HEADS, KV_HEADS, SIZE = 6, 2, 8
SCALE = 0.4


def random_tree(chance, before, new):
    """Visibility [new, m] and depths [m] of a tree's last ``new`` rows, ``before`` written earlier.

    Rows are in topological order; a row sees its ancestors and itself.
    """
    parents = [chance.randrange(-1, i) for i in range(before + new)]
    seen, depths = [], []
    for node, parent in enumerate(parents):
        seen.append(({node} | seen[parent]) if parent >= 0 else {node})
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    visible = torch.tensor(
        [[j in seen[i] for j in range(before + new)] for i in range(before, before + new)]
    )
    return visible, depths


def random_segments(chance, capacity):
    """A chain, a tree, the end of a tree that was begun before, and one with shifted positions."""
    segments = [Segment(3, chance.randrange(20), chance.randint(1, 6))]
    for slab, before in enumerate((0, 3, 5)):
        new = chance.randint(1, 6)
        visible, depths = random_tree(chance, before, new)
        shift = chance.randint(-2, 3) if before == 5 else 0
        start = before + (0 if chance.random() < 0.2 and not shift else chance.randint(4, 30))
        assert start + new <= capacity
        segments.append(Segment(slab, start, new, visible, torch.tensor(depths) + shift))
    chance.shuffle(segments)
    return segments


def allowed(segment, token, row, window):
    """Whether a token of a segment sees a KV row, from the definition of ``Segment``."""
    tail = segment.start + segment.count - segment.before

    def position(at):
        if at < segment.before:
            return at
        offset = at - segment.before
        return segment.before + (offset if segment.depths is None else int(segment.depths[offset]))

    own = segment.start + token
    if row >= segment.before:
        offset = row - segment.before
        seen = row <= own if segment.visible is None else bool(segment.visible[token, offset])
        if not seen:
            return False
    assert tail >= segment.count
    return window is None or position(row) > position(own) - window


def slow(segment, query, keys, values, window):
    """[n, Hq, D] in float64, score by score; query [n, Hq, D], keys and values [rows, Hkv, D]."""
    out = torch.zeros(query.shape, dtype=torch.float64)
    for token in range(segment.count):
        rows = [
            r for r in range(segment.start + segment.count) if allowed(segment, token, r, window)
        ]
        for head in range(HEADS):
            shared = head * KV_HEADS // HEADS
            scores = [SCALE * float(query[token, head] @ keys[r, shared]) for r in rows]
            weights = [math.exp(score - max(scores)) for score in scores]
            for row, weight in zip(rows, weights, strict=True):
                out[token, head] += weight / sum(weights) * values[row, shared]
    return out


def require_every_score(plan_of, segments, window, capacity=48):
    """A plan's output over random rows is what ``slow`` says, and new rows lie where they belong.

    ``plan_of(pool, owner, batch)`` makes the plan.
    """
    pool = KVPool(4, capacity, torch.float64, CPU)
    pool.add_owner("model", [LayerGeometry(KV_HEADS, SIZE, SIZE)])
    keys, values = pool.layer("model", 0)
    keys.normal_()
    values.normal_()
    total = sum(segment.count for segment in segments)
    query = torch.randn(1, HEADS, total, SIZE, dtype=torch.float64)
    key, value = torch.randn(2, 1, KV_HEADS, total, SIZE, dtype=torch.float64)
    batch = pack(segments, torch.zeros(total, dtype=torch.int64), "none")
    got = plan_of(pool, "model", batch).run(0, query, key, value, SCALE, window)[0]
    first = 0
    for segment in segments:
        last = first + segment.count
        end = segment.start + segment.count
        stored = keys[segment.slab, :, :end].transpose(0, 1)
        # New rows lie behind those that were there.
        assert torch.equal(stored[segment.start :], key[0, :, first:last].transpose(0, 1))
        expected = slow(
            segment,
            query[0, :, first:last].transpose(0, 1),
            stored,
            values[segment.slab, :, :end].transpose(0, 1),
            window,
        )
        torch.testing.assert_close(got[first:last], expected, atol=1e-9, rtol=1e-9)
        first = last

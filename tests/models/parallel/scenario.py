"""Forwards of a sharded model: prompts, chains, trees, and rows that move. Also run as a program.

As a program, ``scenario.py FILE [WHEN]``: the leader writes the logits of every family. The
follower leaves ``between`` two commands, or ``inside`` of a forward; or the leader ``fails`` there.
"""

import os
import sys

import torch

from specbench.models.kv_pool import KVPool
from specbench.models.packed import PackedModel
from specbench.models.packed_batch import Segment, pack
from specbench.models.parallel import follower
from specbench.models.parallel.group import join, leave
from specbench.models.parallel.shard import shard
from tests.models.families import VOCABULARY, build

FAMILIES = {
    "llama": {},
    "llama tied": {"tie_word_embeddings": True},
    "qwen2": {},
    "qwen3": {},
    "odd vocabulary": {"vocab_size": VOCABULARY - 1},
}
SLABS, CAPACITY = 3, 64
WIDE = 40


def model_of(family):
    name = "llama" if family.startswith(("llama", "odd")) else family
    return build(name, **FAMILIES[family])


def forwards(packed, broken=False):
    """Logits of a sequence of forwards, each over what the ones before wrote."""
    pool = KVPool(SLABS, CAPACITY, torch.float32, torch.device("cpu"))
    pool.add_owner(packed.owner, packed.geometry())
    packed.use(pool)
    found = [] if broken else [packed.unpacked(torch.tensor([5, 9, 2]))]

    def run(segments, ids, rows):
        found.append(packed.forward(pack(segments, torch.tensor(ids), rows))[0])

    run([Segment(0, 0, 4), Segment(2, 0, 2)], [7, 3, 60, 12, 22, 9], "last")
    run([Segment(2, 2, 1), Segment(0, 4, 3)], [1, 2, 3, 4], "all")
    run([Segment(0, 6, 1)], [8], "none")
    for slab, length in ((0, 7), (2, 3)):
        pool.set_length(packed.owner, slab, length)
    # A root with two children and a grandchild; the second child and its child are accepted.
    seen = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]], dtype=torch.bool)
    depths = torch.tensor([0, 1, 1, 2])
    run([Segment(0, 7, 4, seen, depths), Segment(2, 3, 1)], [5, 6, 7, 8, 9], "all")
    pool.keep(packed.owner, 0, [0, 2, 3])
    run([Segment(0, 10, 2)], [11, 12], "all")
    # A tree whose description does not fit in one frame.
    star = torch.eye(WIDE, dtype=torch.bool)
    star[:, 0] = True
    run(
        [Segment(2, 4, WIDE, star, torch.tensor([0] + [1] * (WIDE - 1)))],
        [n % 60 for n in range(WIDE)],
        "all",
    )
    return found


def break_off(model, leads, when):
    """Let the second layer end a process, or fail."""

    def hook(*_):
        if when == "inside" and not leads:
            os._exit(7)
        if when == "fails" and leads:
            raise RuntimeError("out of memory")

    model.base_model.layers[1].register_forward_pre_hook(hook)


def main(path, when):
    group = join(2, "cpu")
    if when == "between" and not group.leads:
        commands = iter(range(3))
        receive = follower.receive

        def left(group):
            if next(commands, None) is None:
                sys.exit(7)
            return receive(group)

        follower.receive = left
    results = {}
    for family in FAMILIES:
        model = model_of(family)
        shard(model, group, family)
        if when in ("inside", "fails"):
            break_off(model, group.leads, when)
        packed = PackedModel(model, "target", group=group)
        if group.leads:
            results[family] = forwards(packed, bool(when))
            packed.leader.stop()
        else:
            follower.follow(group, {"target": packed})
    if group.leads:
        torch.save(results, path)
    leave()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "")

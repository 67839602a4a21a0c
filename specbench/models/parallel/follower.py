"""A process that computes its part of what the leader computes, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from specbench.models.kv_pool import KVPool
from specbench.models.packed_batch import PackedBatch, pack
from specbench.models.parallel.group import Group
from specbench.models.parallel.wire import decode, receive, share
from specbench.models.pooled import Pooled


class Shard(Protocol):
    """A model or head of which this process has a part."""

    def follow(self, batch: PackedBatch, hidden: Tensor | None, fresh: bool) -> None:
        """Take part in a forward; what it gives is the leader's."""
        ...


def follow(group: Group, models: Mapping[str, Pooled]) -> None:
    """Obey until told to stop.

    Args:
        group: with another process as its leader.
        models: owner -> what has a part here.

    Raises:
        SpecbenchError: the leader is gone.
    """
    while (command := receive(group))["do"] != "stop":
        model = models[command["owner"]]
        if command["do"] == "pool":
            # The old pool goes first: both together need not fit.
            model.forget()
            pool = KVPool(command["slabs"], command["capacity"], model.dtype, group.device)
            pool.add_owner(model.owner, model.geometry())
            model.use(pool)
        elif command["do"] == "move":
            model.pool.move(model.owner, command["slab"], command["start"], command["rows"])
        elif command["do"] == "unpacked":
            model.unpacked(torch.tensor(command["ids"], device=group.device))
        else:
            segments = decode(command["segments"])
            tokens = sum(segment.count for segment in segments)
            shape = tokens + command["rows"]
            numbers = share(group, torch.zeros(shape, dtype=torch.int64, device=group.device))
            ids, rows = numbers.split([tokens, command["rows"]])
            batch = replace(pack(segments, ids, "none"), logit_rows=rows)
            hidden = None
            if command["width"] is not None:
                size = (tokens, command["width"])
                hidden = share(group, torch.zeros(size, dtype=model.dtype, device=group.device))
            model.follow(batch, hidden, command["fresh"])

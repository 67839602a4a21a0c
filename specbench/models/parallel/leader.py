"""The process that decides: what it computes together with others, it tells them first.

Followers do not schedule, draft, judge or draw: nothing that two processes could decide differently
is decided twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.decoding.transfer import to_device
from specbench.errors import SpecbenchError
from specbench.models.kv_pool import KVPool
from specbench.models.packed_batch import PackedBatch
from specbench.models.parallel.group import Group
from specbench.models.parallel.wire import encode, send, share


def broken_group(error: Exception) -> SpecbenchError:
    """The end of a run whose shared forward failed: the others wait in the middle of it."""
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return SpecbenchError(
        f"a forward that several processes share has failed: {first_line}",
        "what is finished is kept: start the run again with --resume, with a lower --concurrency "
        "where memory was full",
    )


class Leader:
    """Commands of the models whose layers are sharded.

    Args:
        group: with this process as its leader.
    """

    def __init__(self, group: Group) -> None:
        self._group = group

    @property
    def size(self) -> int:
        """How many processes share every layer."""
        return self._group.size

    def use(self, owner: str, pool: KVPool) -> None:
        """Followers keep their part of this owner's KV in a pool of the same slabs."""
        send(
            self._group,
            {"do": "pool", "owner": owner, "slabs": pool.slabs, "capacity": pool.capacity},
        )

        def moved(slab: int, start: int, rows: Sequence[int]) -> None:
            send(
                self._group,
                {"do": "move", "owner": owner, "slab": slab, "start": start, "rows": list(rows)},
            )

        pool.watch(owner, moved)

    def forward(self, owner: str, batch: PackedBatch, hidden: Tensor | None, fresh: bool) -> None:
        """Followers run the same forward at the same time.

        Args:
            batch: its ids and rows of logits may be known to the device alone.
            hidden: [T, H] for heads.
            fresh: as ``heads.packed.PackedHead.forward``.
        """
        width = None if hidden is None else hidden.shape[1]
        command = {"do": "forward", "owner": owner, "segments": encode(batch.segments)}
        send(self._group, command | {"rows": len(batch.logit_rows), "width": width, "fresh": fresh})
        device = self._group.device
        numbers = [to_device(batch.ids, device), to_device(batch.logit_rows, device)]
        share(self._group, torch.cat(numbers))
        if hidden is not None:
            share(self._group, hidden)

    def unpacked(self, owner: str, ids: Tensor) -> None:
        """Followers run a prompt through transformers' own attention."""
        send(self._group, {"do": "unpacked", "owner": owner, "ids": ids.tolist()})

    def stop(self) -> None:
        """Followers end."""
        send(self._group, {"do": "stop"})

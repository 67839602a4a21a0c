"""Which batches a process trains on, from any step on."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence

from specbench.train.capture.corpus import Conversation, batches
from specbench.train.loop.ranks import Ranks
from specbench.train.loop.settings import Optimising


def batches_per_epoch(conversations: Sequence[Conversation], how: Optimising) -> int:
    """Batches of the first epoch, over all processes; other epochs may have some more or less."""
    return sum(1 for _ in batches(conversations, how.batch_tokens, how.seed, 0))


def steps_of(conversations: Sequence[Conversation], how: Optimising, processes: int) -> int:
    """Steps of a whole training, at least 1."""
    wanted = how.epochs * batches_per_epoch(conversations, how)
    return max(1, math.ceil(wanted / (how.accumulate * processes)))


def digest(conversations: Sequence[Conversation]) -> str:
    """SHA-256 of the names, whatever their order: other ones make other batches."""
    names = sorted(one.name for one in conversations)
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def groups(
    conversations: Sequence[Conversation], how: Optimising, ranks: Ranks, step: int
) -> Iterator[list[list[Conversation]]]:
    """This process's batches of every step from ``step`` on, epoch after epoch without an end.

    Batches are dealt out in turn, so that a step of several processes has the batches that one
    process with as many times ``accumulate`` has.
    """
    passed, place, group = step * how.accumulate * ranks.size, 0, list[list[Conversation]]()
    epoch = 0
    while True:
        for batch in batches(conversations, how.batch_tokens, how.seed, epoch):
            if place >= passed and place % ranks.size == ranks.rank:
                group.append(batch)
            place += 1
            if len(group) == how.accumulate:
                yield group
                group = []
        epoch += 1

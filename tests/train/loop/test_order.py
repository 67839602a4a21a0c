"""Which batches a process gets, and how many steps there are."""

from itertools import islice

import pytest

from specbench.train.capture.corpus import Conversation, batches
from specbench.train.loop.order import groups, steps_of
from specbench.train.loop.ranks import Ranks
from specbench.train.loop.settings import Optimising

CONVERSATIONS = [Conversation(f"q{n}", 0, 0, (5 * n) % 11 + 4, 1) for n in range(20)]


def dealt(how, ranks, step, count):
    found = islice(groups(CONVERSATIONS, how, ranks, step), count)
    return [[[one.name for one in batch] for batch in group] for group in found]


def in_turn(how, epochs):
    return [
        [one.name for one in batch]
        for epoch in range(epochs)
        for batch in batches(CONVERSATIONS, how.batch_tokens, how.seed, epoch)
    ]


@pytest.mark.parametrize(("accumulate", "size"), [(1, 1), (3, 1), (1, 2), (2, 3)])
def test_all_processes_together_see_every_batch_in_turn(accumulate, size):
    how = Optimising(1, 30, accumulate=accumulate, seed=4)
    steps = 12
    ranks = [dealt(how, Ranks(rank, size), 0, steps) for rank in range(size)]
    seen = [
        ranks[rank][step][place]
        for step in range(steps)
        for place in range(accumulate)
        for rank in range(size)
    ]
    wanted = in_turn(how, 12)
    assert len(wanted) >= len(seen)
    assert seen == wanted[: len(seen)]
    # Going on at a step is being there.
    for rank in range(size):
        assert dealt(how, Ranks(rank, size), 5, 4) == ranks[rank][5:9]


def test_steps_of_a_training():
    how = Optimising(2.5, 30, seed=4)
    per_epoch = len(in_turn(how, 1))
    assert steps_of(CONVERSATIONS, how, 1) == -(-5 * per_epoch // 2)
    assert steps_of(CONVERSATIONS, Optimising(2.0, 30, accumulate=3, seed=4), 2) == -(
        -2 * per_epoch // 6
    )
    assert steps_of(CONVERSATIONS, Optimising(0.001, 30), 1) == 1

"""Unrolled attention against attention with a mask over all pairs of (step, slot)."""

from __future__ import annotations

import pytest
import torch

from specbench.errors import UsageError
from specbench.train.methods.unrolled import Unrolled

LENGTHS, STEPS = (4, 1, 6), 3
SLOTS = sum(LENGTHS)
QUERY_HEADS, KV_HEADS, SIZE, VALUE_SIZE = 4, 2, 8, 5
SCALE = 0.3


def drawn(seed):
    """Queries, keys and values of every step, float64."""
    chance = torch.Generator().manual_seed(seed)

    def noise(heads, size):
        return torch.randn(
            STEPS, 1, heads, SLOTS, size, dtype=torch.float64, generator=chance
        ).requires_grad_()

    return noise(QUERY_HEADS, SIZE), noise(KV_HEADS, SIZE), noise(KV_HEADS, VALUE_SIZE)


def unrolled(query, key, value, layer=0, plan=None):
    plan = plan or Unrolled(LENGTHS)
    return torch.stack(
        [plan.run(layer, query[s], key[s], value[s], SCALE, None) for s in range(STEPS)]
    )


def by_definition(query, key, value):
    """Each (step, slot) asks every other one whether it sees it."""
    conversation = torch.repeat_interleave(torch.arange(len(LENGTHS)), torch.tensor(LENGTHS))
    step = torch.arange(STEPS).repeat_interleave(SLOTS)
    slot = torch.arange(SLOTS).repeat(STEPS)
    same = conversation[slot][:, None] == conversation[slot][None]
    true_slot = (step[None] == 0) & (slot[None] <= slot[:, None])
    own_chain = (slot[None] == slot[:, None]) & (step[None] <= step[:, None])
    visible = same & (true_slot | own_chain)
    outputs = []
    for head in range(QUERY_HEADS):
        shared = head // (QUERY_HEADS // KV_HEADS)
        q = query[:, 0, head].reshape(-1, SIZE)
        k, v = key[:, 0, shared].reshape(-1, SIZE), value[:, 0, shared].reshape(-1, VALUE_SIZE)
        scores = (q @ k.T * SCALE).masked_fill(~visible, -torch.inf)
        outputs.append((scores.softmax(1) @ v).reshape(STEPS, SLOTS, VALUE_SIZE))
    return torch.stack(outputs, 2)[:, None]


def test_every_step_sees_true_slots_and_its_own_chain():
    parts = drawn(1)
    found = unrolled(*parts)
    assert found.shape == (STEPS, 1, SLOTS, QUERY_HEADS, VALUE_SIZE)
    torch.testing.assert_close(found, by_definition(*parts))


def test_gradients_are_those_of_the_definition():
    parts = drawn(2)
    weights = torch.randn(
        STEPS, 1, SLOTS, QUERY_HEADS, VALUE_SIZE,
        dtype=torch.float64, generator=torch.Generator().manual_seed(3),
    )  # fmt: skip
    mine = torch.autograd.grad((unrolled(*parts) * weights).sum(), parts)
    wanted = torch.autograd.grad((by_definition(*parts) * weights).sum(), parts)
    for one, other in zip(mine, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_layers_do_not_see_each_other():
    plan, first, second = Unrolled(LENGTHS), drawn(4), drawn(5)
    for step in range(STEPS):
        for layer, (query, key, value) in enumerate((first, second)):
            found = plan.run(layer, query[step], key[step], value[step], SCALE, None)
            wanted = by_definition(query, key, value)[step]
            torch.testing.assert_close(found, wanted)


def test_a_window_that_reaches_over_everything_is_none():
    query, key, value = drawn(6)
    plan = Unrolled(LENGTHS)
    # The longest conversation has six slots; at step 1 its last query stands at place 6.
    plan.run(0, query[0], key[0], value[0], SCALE, 7)
    found = plan.run(0, query[1], key[1], value[1], SCALE, 7)
    torch.testing.assert_close(found, by_definition(query, key, value)[1])
    with pytest.raises(UsageError, match=r"over 8 places.*7 of them"):
        plan.run(0, query[2], key[2], value[2], SCALE, 7)

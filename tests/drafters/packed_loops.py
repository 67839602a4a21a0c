"""The real loop on a tiny random Llama, with a drafter of choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from specbench.core.request import Request
from specbench.decoding.loop import DecodeLoop
from specbench.decoding.protocols import Drafter, Rule
from specbench.decoding.schedule import IN_ORDER, Schedule
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.timing import TickRecorder
from specbench.models.kv_pool import KVPool
from specbench.models.packed import PackedModel
from specbench.models.target import PackedTarget
from tests.models.families import build
from tests.oracle import CheckedTarget
from tests.tables import run
from tests.toys import request, sequence

PROMPTS = [[3, 1, 4, 1, 5], [9], [2, 6, 5, 3, 5, 8, 9], [7, 9, 3], [31, 62], [8, 8, 8, 8]]


def asked(count: int, temperature: float = 0.0, prompts: Sequence[list[int]] = PROMPTS):
    """One request per prompt, with its own item name and seed."""
    return [
        request(prompt, count, item=f"item-{i}", seed=i, temperature=temperature)
        for i, prompt in enumerate(prompts)
    ]


def decode_packed(
    requests: Sequence[Request],
    drafter_of: Callable[[KVPool, PackedModel], Drafter],
    rule: Rule,
    k: int,
    model: Any = None,
    check: bool = False,
    schedule: Schedule = IN_ORDER,
) -> tuple[list[DecodedSequence], PackedTarget, Drafter]:
    """Decode in one batch; with ``check`` every commit compares KV with a fresh prefill."""
    pool = KVPool(len(requests), 96, torch.float32, torch.device("cpu"))
    packed = PackedModel(model or build("llama"), "target")
    pool.add_owner("target", packed.geometry())
    packed.use(pool)
    target = PackedTarget(packed, torch.device("cpu"))
    if check:
        target = CheckedTarget(packed, PackedModel(packed.model, "fresh"), 1e-4)
    drafter = drafter_of(pool, packed)
    loop = DecodeLoop(target, drafter, rule, k, TickRecorder(lambda: 0), schedule=schedule)
    rows = [sequence(one, pool) for one in requests]
    run(loop, rows)
    return rows, target, drafter


def own_draft(
    pool: KVPool, model: Any, owner: str = "draft", padding: torch.Tensor | None = None
) -> PackedModel:
    """A draft with KV of its own in the pool."""
    packed = PackedModel(model, owner, padding)
    pool.add_owner(owner, packed.geometry(), model.dtype)
    packed.use(pool)
    return packed

"""Recorded outputs of a tiny Llama, replayed beside live decoding with the same drafters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from specbench.core.request import Request
from specbench.decoding.protocols import Drafter, Rule
from specbench.engines.drafts.driven import Driven
from specbench.engines.drafts.flight import Flight, Recording
from specbench.engines.drafts.forced import ForcedPass
from specbench.models.heads.packed import PackedHead
from specbench.models.kv_pool import KVPool
from specbench.models.packed import PackedModel
from specbench.models.target import PackedTarget
from tests.drafters.packed_loops import decode_packed
from tests.models.families import VOCABULARY, build

ROWS = 160
Make = Callable[[KVPool, PackedModel], Drafter]


def replay(
    recordings: Sequence[Recording],
    drafters: Mapping[str, tuple[Make, bool, bool]],
    ks: Sequence[int],
    batch: int = 3,
    model: Any = None,
) -> list[Flight]:
    """All drafters in one pass; each comes with ``cut`` and ``dense`` of ``Driven``."""
    pool = KVPool(batch, ROWS, torch.float32, torch.device("cpu"))
    packed = PackedModel(model or build("llama"), "target")
    pool.add_owner("target", packed.geometry())
    packed.use(pool)
    driven = [
        Driven(name, make(pool, packed), cut, dense)
        for name, (make, cut, dense) in drafters.items()
    ]
    target = PackedTarget(packed, torch.device("cpu"))
    found = ForcedPass(target, pool, "target", driven, ks, batch, VOCABULARY).run(recordings)
    flights = sorted(found, key=lambda flight: flight.number)
    assert [flight.number for flight in flights] == list(range(len(recordings)))
    assert pool.available == batch
    return flights


def head_of(network: Any, pool: KVPool, owner: str) -> PackedHead:
    """A head with KV of its own in the pool."""
    head = PackedHead(network, owner, VOCABULARY)
    pool.add_owner(owner, head.geometry(), head.dtype)
    head.use(pool)
    return head


def noisy(share: float = 0.01, seed: int = 0) -> Any:
    """The target with a little noise: a draft that is often right."""
    model = build("llama")
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter += share * torch.randn(parameter.shape, generator=generator)
    return model


def recorded(requests: Sequence[Request], model: Any = None) -> list[Recording]:
    """What plain decoding gives."""
    from specbench.drafters.none import NoDrafter
    from specbench.verify.target_match import RULE

    rows, _, _ = decode_packed(requests, lambda *_: NoDrafter(), RULE, 0, model)
    return [Recording(row.request, tuple(row.trace.output_ids)) for row in rows]


def live(
    requests: Sequence[Request], make: Make, rule: Rule, k: int, model: Any = None
) -> list[tuple[int, Counter[int]]]:
    """Per request: decode steps, and how many of them accepted how much."""
    rows, _, _ = decode_packed(requests, make, rule, k, model)
    return [(len(row.trace.steps), Counter(row.trace.steps.accepted)) for row in rows]


def replayed(flights: Sequence[Flight], name: str, k: int) -> list[tuple[float, Counter[int]]]:
    """The same from a replay."""
    found = []
    for flight in flights:
        assert not flight.failed
        steps = flight.result().drafts[name].steps[k]
        counts = Counter({i: n for i, n in enumerate(steps.accepted) if n})
        found.append((steps.count, counts))
    return found

"""Integer toy models that run on the real pool, target and drafters: no floats, so no ties."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.core.request import Limits, Request, RequestKey, Sampling, Stops
from specbench.core.trace import Granularity, Trace
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.stops import StopChecker
from specbench.models.kv_pool import KVPool, LayerGeometry
from specbench.models.packed_batch import PackedBatch

VOCABULARY = 17
ONE_NUMBER = [LayerGeometry(kv_heads=1, key_size=1, value_size=1)]


class CycModel:
    """CASES fixture CYC: next id = (sum of all earlier ids + how many there are) mod 17.

    Ids live in the pool where keys would, so one wrong position or one stale row changes the
    output at once. ``wrong_every`` adds 1 when the length is a multiple of it (CYC-D for 4);
    ``hide`` makes the model blind to that many of the newest valid rows.
    """

    def __init__(self, owner: str, pool: KVPool, wrong_every: int = 0, hide: int = 0) -> None:
        self.owner = owner
        self.pool = pool
        self._wrong_every = wrong_every
        self._hide = hide
        pool.add_owner(owner, ONE_NUMBER)
        self.calls = 0

    def forward(self, batch: PackedBatch, taps: Sequence = ()) -> tuple[Tensor, dict]:
        """One-hot logits [M, 17] times 10."""
        self.calls += 1
        keys, _ = self.pool.layer(self.owner, 0)
        keys[batch.slabs, 0, batch.places, 0] = batch.ids.float()
        logits = torch.zeros(batch.tokens, VOCABULARY)
        first = 0
        for segment in batch.segments:
            visible = segment.visible
            if visible is None:
                visible = torch.ones(segment.count, segment.count, dtype=torch.bool).tril()
            line = keys[segment.slab, 0, :, 0]
            prefix = line[: max(segment.before - self._hide, 0)]
            own = line[segment.before : segment.start + segment.count]
            for row in range(segment.count):
                seen = own[visible[row]]
                length = len(prefix) + len(seen)
                answer = int(prefix.sum() + seen.sum()) + length
                if self._wrong_every and length % self._wrong_every == 0:
                    answer += 1
                logits[first + row, answer % VOCABULARY] = 10.0
            first += segment.count
        return logits[batch.logit_rows], {}


def cyc_output(prompt: Sequence[int], count: int) -> list[int]:
    """What CYC generates, from its definition."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append((sum(tokens) + len(tokens)) % VOCABULARY)
    return tokens[len(prompt) :]


def request(
    prompt: Sequence[int],
    count: int,
    *,
    item: str = "item",
    temperature: float = 0.0,
    seed: int = 1,
    stops: Stops | None = None,
    context: int | None = None,
    minimum: int = 0,
    **sampling: float,
) -> Request:
    """A request over toy token ids."""
    return Request(
        RequestKey("toy", item, 0, temperature, 0),
        tuple(prompt),
        Sampling(temperature, **sampling),
        Limits(count, minimum, context),
        stops or Stops(),
        seed,
    )


def sequence(asked: Request, pool: KVPool) -> DecodedSequence:
    """A sequence admitted to a pool."""
    trace = Trace(
        asked.key, "arm", 1, "", Granularity.STEP, asked.seed, len(asked.token_ids), "", 0
    )
    stops = StopChecker(asked.stops, asked.limits, len(asked.token_ids), None)
    return DecodedSequence(asked, pool.admit(pool.capacity), trace, stops)

"""Which request runs when: interleaving units, balanced arm orders, and what a run will cost."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from specbench.core.manifest import RecordId
from specbench.core.request import RequestKey, Sampling
from specbench.core.suite import Prompt
from specbench.measure.requests import Conditions

Selection = Mapping[str, Sequence[Prompt]]
"""Suite name -> the prompts that a run puts through it."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Prompts that every arm decodes before the next unit begins, so that drift hits all alike.

    Attributes:
        kind: ``item`` (one prompt, concurrency 1), ``block`` (the same prompts for each arm; with
            open arrivals all of the cell) or ``server`` (either, but each arm decodes all units of
            a stage before the next arm).
        orders: per turn, the arms in the order they run.
        start: the stage it belongs to: which start of the servers decodes it, from 0.
    """

    name: str
    kind: str
    suite: str
    prompts: tuple[Prompt, ...]
    sampling: Sampling
    repeat: int
    concurrency: int
    orders: tuple[tuple[str, ...], ...]
    start: int = 0

    def key(self, prompt: Prompt, turn: int) -> RequestKey:
        """The request key of one turn of a prompt of this unit."""
        return RequestKey(self.suite, prompt.id, turn, self.sampling.temperature, self.repeat)

    def records(self) -> Iterator[RecordId]:
        """Every record this unit leaves behind."""
        for turn, order in enumerate(self.orders):
            for prompt in self.prompts:
                if turn < len(prompt.turns):
                    for arm in order:
                        yield RecordId(self.key(prompt, turn), arm, self.concurrency)


def balanced_orders(arms: Sequence[str], count: int, rng: random.Random) -> list[tuple[str, ...]]:
    """``count`` orders of the arms; in every len(arms) of them each arm holds each place once."""
    orders: list[tuple[str, ...]] = []
    while len(orders) < count:
        base = rng.sample(list(arms), len(arms))
        rotations = [tuple(base[i:] + base[:i]) for i in range(len(base))]
        rng.shuffle(rotations)
        orders.extend(rotations)
    return orders[:count]


def block_sizes(items: int, concurrency: int) -> list[int]:
    """Sizes of blocks of c to 2c prompts that cover ``items``; one short block if items < c."""
    blocks = max(1, items // concurrency)
    small, extra = divmod(items, blocks)
    return [small + (index < extra) for index in range(blocks)]


def plan_units(
    selection: Selection, conditions: Conditions, arms: Sequence[str], start: int = 0
) -> list[Unit]:
    """All units of one start in the order they run: suites in turn, temperatures side by side."""
    units: list[Unit] = []
    for concurrency in conditions.concurrency:
        for repeat in range(conditions.repeats):
            cells = [
                _cell(suite, prompts, sampling, repeat, concurrency, conditions, arms, start)
                for suite, prompts in selection.items()
                for sampling in conditions.samplings
            ]
            # Round robin over the cells: an interrupted run then covers all of them evenly.
            units.extend(u for group in zip_longest(*cells) for u in group if u is not None)
    return units


def _cell(
    suite: str,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    repeat: int,
    concurrency: int,
    conditions: Conditions,
    arms: Sequence[str],
    start: int,
) -> list[Unit]:
    name = f"{suite}:T{sampling.temperature}:r{repeat}:c{concurrency}"
    # The first start has no suffix: names and orders are those of a run with one start.
    ending = f":s{start}" if start else ""
    digest = hashlib.sha256(f"{conditions.seed}:{name}{ending}".encode()).digest()
    rng = random.Random(int.from_bytes(digest[:8], "big"))
    # Arrivals of their own are one stream: every block would start it anew on an idle server.
    whole = conditions.open_arrivals
    sizes = [len(prompts)] if whole else block_sizes(len(prompts), concurrency)
    turns = max((len(prompt.turns) for prompt in prompts), default=0)
    orders = [balanced_orders(arms, len(sizes), rng) for _ in range(turns)]
    units, first = [], 0
    for index, size in enumerate(sizes):
        members = tuple(prompts[first : first + size])
        first += size
        depth = max(len(prompt.turns) for prompt in members)
        item = concurrency == 1 and not whole
        units.append(
            Unit(
                name=f"{name}:{members[0].id if item else f'block{index}'}{ending}",
                kind="item" if item else "block",
                suite=suite,
                prompts=members,
                sampling=sampling,
                repeat=repeat,
                concurrency=concurrency,
                orders=tuple(orders[turn][index] for turn in range(depth)),
                start=start,
            )
        )
    return units

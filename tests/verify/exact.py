"""Exact output laws of rules that judge trees.

The integration knows nothing of a rule but that it is a step function of each of its numbers: it
cuts the cube of the accept numbers at the jumps, which bisection finds, until the outcome no longer
depends on any of them, and does the same for the number that draws the last token.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specbench.decoding.protocols import Acceptance, Uniforms
from tests.verify.trees import Batch, Setting

Law = dict[tuple[int, ...], float]
RuleLike = Callable[..., tuple[Acceptance, object]]

HALVINGS = 26
"""Jumps are found to 2^-27."""
ALMOST_ONE = 1 - 2.0**-30


def judge(rule: RuleLike, batch: Batch, accept: Tensor, last: Tensor) -> Acceptance:
    """One call; ``last`` serves as residual and as bonus number, of which a rule reads one."""
    zeros = torch.zeros(len(last), batch.tree.width + 1, dtype=torch.float64)
    numbers = Uniforms(accept, last, last, zeros)
    return rule(batch.tree, batch.trials, batch.rows, batch.laws, None, numbers)[0]


@dataclass(frozen=True)
class Cells:
    """Boxes of accept numbers in which the outcome is the same, or not yet known to be.

    Attributes:
        owner: int64 [C] row of the batch.
        low, high: [C, R] edges.
        near, at: [C, R] points just inside the lower and the upper edge.
    """

    owner: Tensor
    low: Tensor
    high: Tensor
    near: Tensor
    at: Tensor

    def take(self, at: Tensor) -> Cells:
        """Some of the cells."""
        return Cells(self.owner[at], self.low[at], self.high[at], self.near[at], self.at[at])

    def put(self, axis: Tensor, **columns: Tensor) -> Cells:
        """New values on one axis per cell."""
        cell = torch.arange(len(axis))
        new = {name: getattr(self, name).clone() for name in columns}
        for name, values in columns.items():
            new[name][cell, axis] = values
        return replace(self, **new)


def cells(rule: RuleLike, batch: Batch) -> Cells:
    """The cube of accept numbers of every row, cut where the outcome changes."""
    shape = batch.trials.node.shape
    zeros = torch.zeros(shape, dtype=torch.float64)
    todo = Cells(torch.arange(shape[0]), zeros, zeros + 1, zeros, zeros + ALMOST_ONE)
    done = []
    while True:
        part = batch.take(todo.owner)
        here = _outcome(rule, part, todo.at)
        axis = torch.full_like(todo.owner, -1)
        for j in reversed(range(shape[1])):
            moved = todo.at.clone()
            moved[:, j] = todo.near[:, j]
            axis = torch.where(_outcome(rule, part, moved) != here, j, axis)
        done.append(todo.take(axis < 0))
        going = (axis >= 0).nonzero().flatten()
        if not len(going):
            break
        todo, part, here = todo.take(going), part.take(going), here[going]
        axis = axis[going]
        line = axis[:, None]
        low, high = todo.near.gather(1, line).squeeze(1), todo.at.gather(1, line).squeeze(1)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            same = _outcome(rule, part, todo.put(axis, at=middle).at) == here
            low, high = torch.where(same, low, middle), torch.where(same, middle, high)
        edge = (low + high) / 2
        below, above = todo.put(axis, high=edge, at=low), todo.put(axis, low=edge, near=high)
        todo = _joined([below, above])
    found = _joined(done)
    inside = torch.rand(found.low.shape, generator=torch.Generator().manual_seed(1)).double()
    point = found.low + (found.high - found.low) * (0.001 + 0.998 * inside)
    part = batch.take(found.owner)
    assert torch.equal(_outcome(rule, part, point), _outcome(rule, part, found.at))
    return found


def _joined(parts: Sequence[Cells]) -> Cells:
    return Cells(
        torch.cat([part.owner for part in parts]),
        torch.cat([part.low for part in parts]),
        torch.cat([part.high for part in parts]),
        torch.cat([part.near for part in parts]),
        torch.cat([part.at for part in parts]),
    )


def _outcome(rule: RuleLike, batch: Batch, accept: Tensor) -> Tensor:
    """One number per row for the accepted path and what follows it."""
    verdict = judge(rule, batch, accept, torch.full((len(accept),), 0.37, dtype=torch.float64))
    last = verdict.path.gather(1, (verdict.n_accepted[:, None] - 1).clamp(min=0)).squeeze(1)
    return torch.where(verdict.n_accepted > 0, last + 1, 0) * 1000 + verdict.next_token


def shares(rule: RuleLike, batch: Batch, accept: Tensor, size: int) -> Tensor:
    """Law [C, V] of the token behind the path, by bisection for where each id ends."""
    count = len(accept)
    many = torch.arange(count).repeat_interleave(size - 1)
    token = torch.arange(size - 1).repeat(count)
    part, fixed = batch.take(many), accept[many]
    low = torch.zeros(len(many), dtype=torch.float64)
    high = torch.ones_like(low)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        behind = judge(rule, part, fixed, middle).next_token > token
        low, high = torch.where(behind, low, middle), torch.where(behind, middle, high)
    ends = torch.where(low == 0, 0.0, torch.where(high == 1, 1.0, (low + high) / 2))
    zeros = torch.zeros(count, 1, dtype=torch.float64)
    return torch.cat([zeros, ends.view(count, -1), zeros + 1], 1).diff(dim=1)


def law_of(rule: RuleLike, batch: Batch) -> Law:
    """Law of the tokens that one round emits, over all rows of the batch by their weight."""
    found = cells(rule, batch)
    part = batch.take(found.owner)
    tokens = shares(rule, part, found.at, batch.rows.raw.shape[1]).tolist()
    verdict = judge(rule, part, found.at, torch.zeros(len(found.at), dtype=torch.float64))
    ids, counts = part.tree.ids.tolist(), verdict.n_accepted.tolist()
    volume = (part.weight * (found.high - found.low).prod(1)).tolist()
    law: Law = defaultdict(float)
    for c, path in enumerate(verdict.path.tolist()):
        way = tuple(ids[c][node] for node in path[: counts[c]])
        for token, share in enumerate(tokens[c]):
            if share > 0:
                law[(*way, token)] += volume[c] * share
    return dict(law)


def round_law(rule: RuleLike, setting: Setting, start: int = 0) -> Law:
    """Law of the tokens that one round emits behind ``start``."""
    return law_of(rule, setting.batch(start))


def accepted(law: Law) -> float:
    """Mean number of accepted drafts."""
    return sum(mass * (len(path) - 1) for path, mass in law.items())


def chance(law: Law) -> float:
    """Chance that any draft was accepted."""
    return sum(mass for path, mass in law.items() if len(path) > 1)


def first(law: Law, size: int) -> list[float]:
    """Law of the first emitted token."""
    return [sum(m for path, m in law.items() if path[0] == token) for token in range(size)]


def rounds(rule: RuleLike, setting: Setting, start: int, length: int) -> Law:
    """Law of the first ``length`` tokens when rounds follow each other."""
    blocks: dict[int, Law] = {}
    open_ends: list[Law] = [defaultdict(float) for _ in range(length)]
    open_ends[0][()] = 1.0
    final: Law = defaultdict(float)
    for size in range(length):
        for prefix, mass in open_ends[size].items():
            before = prefix[-1] if prefix else start
            if before not in blocks:
                blocks[before] = round_law(rule, setting, before)
            for tail, p in blocks[before].items():
                longer = (*prefix, *tail)
                at = final if len(longer) >= length else open_ends[len(longer)]
                at[longer[:length]] += mass * p
    return final


def plain(target: Tensor, start: int, length: int) -> Law:
    """Law of the first ``length`` tokens of the target itself."""
    law: Law = {(): 1.0}
    for _ in range(length):
        law = {
            (*path, token): mass * p
            for path, mass in law.items()
            for token, p in enumerate(target[path[-1] if path else start].tolist())
            if p > 0
        }
    return law


def distance(one: Law, other: Law) -> float:
    """Total variation."""
    return sum(abs(one.get(k, 0.0) - other.get(k, 0.0)) for k in one.keys() | other.keys()) / 2

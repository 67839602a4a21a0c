"""Exact output laws of acceptance rules: every random input is integrated, nothing is sampled.

A rule is a step function of each of its uniform numbers, so a sum over cells whose borders contain
all of its thresholds is its integral. Target and draft depend on the token before (row t of a
table), so that rounds can be chained: ALGORITHMS 1.8 asks for the law of whole sequences.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from specbench.core.request import Sampling
from specbench.decoding.laws import DenseLaws, DraftLaws, OneHotLaws
from specbench.decoding.protocols import Acceptance, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TrialKind, chain, chain_trials

Law = dict[tuple[int, ...], float]
RuleLike = Callable[..., tuple[Acceptance, object]]


@dataclass(frozen=True)
class Axis:
    """Cells of one uniform number: a point inside each, and their widths."""

    points: Tensor
    widths: Tensor


def cells(borders: Sequence[float]) -> Axis:
    """Cells between the given thresholds."""
    inside = sorted({0.0, 1.0, *(min(max(float(b), 0.0), 1.0) for b in borders)})
    edges = torch.tensor(inside, dtype=torch.float64)
    return Axis((edges[1:] + edges[:-1]) / 2, edges.diff())


def grid(count: int) -> Axis:
    """Equal cells."""
    return cells([i / count for i in range(count + 1)])


@dataclass(frozen=True)
class Tables:
    """Target rows [V, V] by token before, and a draft: rows likewise, or one token per row.

    ``accept``, ``last`` and ``target`` are the axes of the accept numbers, of residual and bonus
    (a rule reads one of the two), and of the target's own draws.
    """

    target: Tensor
    draft: Tensor | Sequence[int]
    accept: Axis
    last: Axis
    own: Axis
    greedy: bool = False

    @property
    def dense(self) -> bool:
        """Whether drafts are sampled."""
        return isinstance(self.draft, Tensor)

    def drafts(self, start: int, k: int) -> list[tuple[tuple[int, ...], float]]:
        """Every possible chain of ``k`` drafts behind ``start``, with its probability."""
        found: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
        for _ in range(k):
            longer = []
            for path, mass in found:
                before = path[-1] if path else start
                for token, p in self._next(before):
                    longer.append(((*path, token), mass * p))
            found = longer
        return found

    def _next(self, before: int) -> list[tuple[int, float]]:
        if isinstance(self.draft, Tensor):
            line = self.draft[before].tolist()
            return [(token, p) for token, p in enumerate(line) if p > 0]
        return [(self.draft[before], 1.0)]

    def rows(self, start: int, ids: Tensor) -> TargetRows:
        """Target rows of a batch of chains; packed row t is the law after token t."""
        size = len(self.target)
        before = torch.cat([torch.full((len(ids), 1), start), ids], 1)
        index = torch.where((before >= 0) & (before < size), before, 0)
        sampling = [Sampling(0.0 if self.greedy else 1.0)] * size
        return TargetRows(self.target.log(), index, sampling)

    def laws(self, start: int, ids: Tensor) -> DraftLaws:
        """Draft laws of a batch of chains."""
        if not isinstance(self.draft, Tensor):
            return OneHotLaws()
        before = torch.cat([torch.full((len(ids), 1), start), ids[:, :-1]], 1)
        return DenseLaws(self.draft[before.clamp(0, len(self.target) - 1)])


def judged(
    rule: RuleLike,
    tables: Tables,
    start: int,
    ids: Tensor,
    uniforms: Uniforms,
    laws: DraftLaws | None = None,
) -> Acceptance:
    """One call of the rule on chains ids [B, K]."""
    tree = chain(ids, (ids.shape[1],) * len(ids))
    trials = chain_trials(tree, TrialKind.IID if tables.dense else TrialKind.ONE_HOT)
    laws = laws or tables.laws(start, ids)
    return rule(tree, trials, tables.rows(start, ids), laws, None, uniforms)[0]


def all_uniforms(tables: Tables, k: int, own: bool) -> tuple[Uniforms, Tensor]:
    """Every cell of the numbers that one kind of rule reads, and its volume.

    ``own``: the target's own draws; otherwise accept numbers with residual or bonus.
    """
    axes = [tables.own] * (k + 1) if own else [tables.accept] * k + [tables.last]
    points = torch.cartesian_prod(*(a.points for a in axes)).view(-1, len(axes))
    volumes = torch.cartesian_prod(*(a.widths for a in axes)).view(-1, len(axes)).prod(1)
    if own:
        zero = torch.zeros(len(points), dtype=torch.float64)
        return Uniforms(zero[:, None].expand(-1, k), zero, zero, points), volumes
    zeros = torch.zeros(len(points), k + 1, dtype=torch.float64)
    return Uniforms(points[:, :k], points[:, k], points[:, k], zeros), volumes


def block_law(
    rule: RuleLike, tables: Tables, start: int, k: int, *, own: bool = False,
    drafts: Sequence[tuple[tuple[int, ...], float]] | None = None,
    laws_of: Callable[[int, Tensor], DraftLaws] | None = None,
) -> Law:  # fmt: skip
    """Law of the tokens that one round emits behind ``start``."""
    uniforms, volumes = all_uniforms(tables, k, own)
    law: Law = defaultdict(float)
    for path, mass in drafts or tables.drafts(start, k):
        ids = torch.tensor(path, dtype=torch.int64).expand(len(volumes), k)
        laws = laws_of(start, ids) if laws_of else None
        verdict = judged(rule, tables, start, ids, uniforms, laws)
        code = verdict.n_accepted * (len(tables.target) + 1) + verdict.next_token
        for value in code.unique().tolist():
            count, following = divmod(value, len(tables.target) + 1)
            law[(*path[:count], following)] += mass * float(volumes[code == value].sum())
    return dict(law)


def chained(block: Callable[[int], Law], start: int, length: int) -> Law:
    """Law of the first ``length`` tokens when rounds follow each other."""
    blocks: dict[int, Law] = {}
    open_ends: list[Law] = [defaultdict(float) for _ in range(length)]
    open_ends[0][()] = 1.0
    final: Law = defaultdict(float)
    for size in range(length):
        for prefix, mass in open_ends[size].items():
            before = prefix[-1] if prefix else start
            if before not in blocks:
                blocks[before] = block(before)
            for tail, p in blocks[before].items():
                longer = (*prefix, *tail)
                at = final if len(longer) >= length else open_ends[len(longer)]
                at[longer[:length]] += mass * p
    return final


def plain_law(target: Tensor, start: int, length: int) -> Law:
    """Law of the first ``length`` tokens under the target itself."""
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
    """Total variation between two laws."""
    return sum(abs(one.get(k, 0.0) - other.get(k, 0.0)) for k in one.keys() | other.keys()) / 2


def first_token(law: Law, size: int) -> list[float]:
    """Marginal of the first emitted token."""
    return [sum(p for path, p in law.items() if path[0] == token) for token in range(size)]


def accepted(law: Law, k: int) -> float:
    """Chance that all ``k`` drafts were accepted."""
    return sum(p for path, p in law.items() if len(path) == k + 1)


def thresholds(target: Tensor, draft: Tensor) -> tuple[Axis, Axis, Axis]:
    """Axes for arbitrary tables: borders at every ratio, residual and target cumulative sum."""
    ratios, last, own = [0.0], [0.0], [0.0]
    for p, q in product(target.double(), draft.double()):
        ratios += (p[q > 0] / q[q > 0]).tolist()
        without = [p.masked_fill(torch.arange(len(p)) == x, 0) for x in range(len(p))]
        for line in (p, (p - q).clamp(min=0), *without):
            if line.sum() > 0:
                last += (line.cumsum(0) / line.sum()).tolist()
        own += p.cumsum(0).tolist()
    return cells(ratios), cells(last), cells(own)

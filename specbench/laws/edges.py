"""Inputs at the edge: u = 0 and just below 1, holes, ids out of range, and what purity means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from specbench.laws.adapters import UniformsSampler
from specbench.laws.chains import chain_law
from specbench.laws.codes import refuse_broken
from specbench.laws.mutants import TRIES, random_rounds
from specbench.laws.outcome import Finding, Outcome, Status, guarded
from specbench.laws.outputs import EXACT, RoundLaw, conditional_distance, own_law
from specbench.laws.rounds import PAD, Paths, Sampler, paths, rounds
from specbench.laws.tables import ARGMAX, SAMPLED, TABLES, LawTable

BELOW_ONE = 1 - 2.0**-24
"""The largest float32 below 1: a sampler may hold its numbers in single precision."""

Places = Callable[[LawTable], list[Tensor]]
"""Entry j: the law of a round's token at place j (rows [V, V]); the last is behind the drafts."""


def purity(name: str, sampler: Sampler, seed: int) -> Iterator[Outcome]:
    """Whether tokens follow from the arguments of their own round, and nothing is written to."""
    table = SAMPLED[0]
    yield _edge(name, "pure, round by round", partial(changes_between_calls, sampler, table, seed))
    if isinstance(sampler, UniformsSampler):
        given = random_rounds(table, TRIES, seed)
        yield _edge(name, "arguments are left alone", partial(sampler.changes, given))


def edge_outcomes(name: str, sampler: Sampler, places_of: Places) -> Iterator[Outcome]:
    """u = 0 and just below 1, holes and ids out of range."""
    yield _edge(name, "support at u = 0, 1/2 and below 1", partial(_impossible, sampler))
    for table in (SAMPLED[1], ARGMAX[1]):
        for strange in (PAD, table.size, table.size + 5):
            work = partial(behind_holes, sampler, table, strange, places_of(table))
            yield _edge(name, f"draft id {strange}, {table.name}", work)


def _edge(name: str, case: str, problem: Callable[[], str]) -> Outcome:
    def work() -> Finding:
        found = problem()
        return Finding(Status.FAILED if found else Status.PASSED, found or "right")

    return guarded(name, "edge", case, work)


def _impossible(sampler: Sampler) -> str:
    return next(filter(None, (impossible_tokens(sampler, table) for table in TABLES)), "")


def changes_between_calls(sampler: Sampler, table: LawTable, seed: int) -> str:
    """Why a sampler is no function of each round's own inputs; empty where it is."""
    given = random_rounds(table, TRIES, seed)
    tokens = sampler(given)
    if not torch.equal(sampler(given), tokens):
        return "equal inputs gave different tokens: it draws numbers that are not its arguments"
    order = torch.randperm(TRIES, generator=torch.Generator().manual_seed(seed))
    if not torch.equal(sampler(given.part(order)), tokens[order]):
        return "a round's tokens depend on the rounds beside it in the batch"
    return ""


def impossible_tokens(sampler: Sampler, table: LawTable) -> str:
    """Why the output leaves the target's support at u = 0, 1/2 or just below 1; empty if not."""
    drafts = paths(table)
    values = torch.tensor([0.0, 0.5, BELOW_ONE], dtype=torch.float64)
    corners = torch.cartesian_prod(*[values] * (table.k + 1)).view(-1, table.k + 1)
    path = torch.arange(len(drafts.mass)).repeat_interleave(len(corners))
    points = corners.repeat(len(drafts.mass), 1)
    start, ids = drafts.start[path], drafts.ids[path]
    tokens = sampler(rounds(table, start, ids, points[:, : table.k], points[:, table.k]))
    refuse_broken(tokens, table.size)
    before = torch.cat([start[:, None], tokens[:, :-1].clamp(min=0)], 1)
    bad = (tokens != PAD) & (table.target[before, tokens.clamp(min=0)] == 0)
    if not bool(bad.any()):
        return ""
    row, place = bad.nonzero()[0].tolist()
    return (
        f"emitted token {int(tokens[row, place])} of target probability 0 as token {place + 1}, "
        f"drafts {ids[row].tolist()}, uniforms {points[row].tolist()}"
    )


def behind_holes(sampler: Sampler, table: LawTable, strange: int, expected: list[Tensor]) -> str:
    """Why a round with ``strange`` among its drafts goes wrong; empty where it does not.

    Args:
        strange: an id that names no token: -1 to the end of the draft, others once.
        expected: entry j, the law of a round's token at place j (rows [V, V]) where it is drafted,
            and behind the last draft in the last entry.
    """
    for place in range(table.k):
        known = paths(table, place)
        ids = torch.zeros(len(known.mass), table.k, dtype=torch.int64)
        ids[:, :place] = known.ids
        ids[:, place:] = PAD if strange == PAD else 0
        ids[:, place] = strange
        law = chain_law(sampler, table, Paths(known.start, ids, known.mass))
        if float(law.emits(place + 2).max()) > 0:
            return f"drafts {ids[0].tolist()}: the id {strange} counted as a token"
        off = conditional_distance(law, [*expected[:place], expected[-1]])
        if off + law.doubt > EXACT:
            return f"drafts {ids[0].tolist()}: off by {off:.1e} in total variation"
    return ""


def beyond_transport(law: RoundLaw, table: LawTable) -> str:
    """Why a sampler keeps more drafts than any exact one can; empty where it does not.

    P(the first j drafts are kept) <= sum over chains of min(target, draft): a kept chain is one on
    which target and draft agree (optimal transport for one candidate, ALGORITHMS 1.5).
    """
    for j in range(1, table.k + 1):
        best = torch.minimum(own_law(table.target, j), own_law(table.draft, j)).sum(1)
        more = law.emits(j + 1) - best
        if float(more.max()) > EXACT:
            start = int(more.argmax())
            return (
                f"keeps {j} drafts with {float(law.emits(j + 1)[start]):.4f}, but target and "
                f"draft agree on {float(best[start]):.4f} only"
            )
    return ""

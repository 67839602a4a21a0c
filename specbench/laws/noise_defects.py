"""Planted defects of random numbers: shared between two uses, or kept over rounds."""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.laws.codes import encode, refuse_broken
from specbench.laws.integrate import integrate
from specbench.laws.mutants import TRIES, random_rounds
from specbench.laws.outputs import distance, gather, own_law
from specbench.laws.rounds import Sampler, counted, drawn_ids, rounds
from specbench.laws.tables import SAMPLED, TWO, LawTable

SHARED_NOISE = "noise shared between draft and residual"
KEYED_NOISE = "noise keyed by position"
REPEATED_NOISE = "noise repeated every round"

SHARED = SAMPLED[4]
"""One draft: rejected at its place, it leaves its number to the token that replaces it."""
KEYED = LawTable("two tokens, K=2", *TWO, True, 2)
"""ALGORITHMS 1.6: noise keyed by position gives token 0 with 7/18 at position 2, not 1/3."""


def shared_noise_error(sampler: Sampler, table: LawTable = SHARED) -> float:
    """Total variation when one number draws the first draft and the token behind the drafts."""
    k = table.k

    def judge(start: Tensor, points: Tensor) -> Tensor:
        # The numbers that draw come first: what the accept numbers do depends on them.
        ids = drawn_ids(table, start, points[:, :k])
        return encode(sampler(rounds(table, start, ids, points[:, k:], points[:, 0])), table.size)

    found = integrate(judge, table.size, 2 * k)
    law = gather(found.context, found.code, found.volume, table.size, k + 1)
    return distance(law.chained(table.length), own_law(table.target, table.length))


def keyed_noise_law(sampler: Sampler, table: LawTable = KEYED) -> Tensor:
    """Law float64 [S, V**2] of two tokens when positions keep their numbers over rounds.

    A round that emitted one token leaves the draft and accept numbers of later positions to the
    next round, which begins one position later; all other numbers are fresh.
    """
    k, size = table.k, table.size

    def judge(start: Tensor, points: Tensor) -> Tensor:
        draft, accept, last, fresh_draft, fresh_accept, other = points.split([k, k, 1, 1, 1, 1], 1)
        ids = drawn_ids(table, start, draft)
        one = sampler(rounds(table, start, ids, accept, last[:, 0]))
        first = one[:, 0]
        ids = drawn_ids(table, first, torch.cat([draft[:, 1:], fresh_draft], 1))
        accept = torch.cat([accept[:, 1:], fresh_accept], 1)
        two = sampler(rounds(table, first, ids, accept, other[:, 0]))
        for tokens in (one, two):
            refuse_broken(tokens, size)
        return first * size + torch.where(counted(one) > 1, one[:, 1], two[:, 0])

    found = integrate(judge, size, 2 * k + 4)
    law = torch.zeros(size * size**2, dtype=torch.float64)
    return law.index_add(0, found.context * size**2 + found.code, found.volume).view(size, -1)


def keyed_noise_error(sampler: Sampler) -> float:
    """Total variation of the first two tokens when noise is keyed by position."""
    return distance(keyed_noise_law(sampler), own_law(KEYED.target, 2))


def reads_behind(sampler: Sampler, seed: int) -> bool:
    """Whether drafts and accept numbers behind the last emitted token ever change the output."""
    given = random_rounds(KEYED, TRIES, seed)
    other = random_rounds(KEYED, TRIES, seed + 1)
    tokens = sampler(given)
    behind = torch.arange(given.k) >= counted(tokens)[:, None]
    ids = torch.where(behind, other.ids, given.ids)
    accept = torch.where(behind, other.accept, given.accept)
    changed = rounds(KEYED, given.position[:, 0], ids, accept, given.last)
    return not torch.equal(sampler(changed), tokens)

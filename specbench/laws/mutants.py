"""Planted defects: wrappers around any sampler whose output law must come out wrong.

A check that lets one of them pass has no power over this sampler, which is a failure of the check.
Some defects leave no trace in some samplers; then the reason is given instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specbench.decoding.sampling import draw
from specbench.laws.chains import chain_law
from specbench.laws.outputs import distance, own_law
from specbench.laws.rounds import Rounds, Sampler, counted, drawn_ids, rounds
from specbench.laws.tables import SAMPLED, LawTable

VISIBLE = 1e-3
"""A caught mutant is off by more than this in total variation; a right sampler by under 1e-6."""
KEPT_MASS = 0.8
"""Share of the raw softmax that truncation keeps, in mutants that confuse it with what is left."""
FLATTER = 0.7
"""Exponent that undoes a temperature of 0.7."""
TRIES = 512
"""Random rounds on which two samplers are compared."""

MUTANT_TABLES = tuple(table for table in SAMPLED if table.k == 2)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A defect around the sampler: what it is given is spoiled before, or what it emits after.

    Attributes:
        name: as results call it.
        before: what the sampler is given instead.
        after: (rounds, tokens, uniform numbers [n]) -> tokens.
        unseen: why it leaves no trace in a sampler whose outputs stay the same.
    """

    name: str
    unseen: str
    before: Callable[[Rounds], Rounds] = lambda given: given
    after: Callable[[Rounds, Tensor, Tensor], Tensor] = lambda given, tokens, uniforms: tokens

    def around(self, sampler: Sampler) -> Sampler:
        """The sampler with the defect; numbers that the defect draws are those of the last draw."""

        def spoiled(given: Rounds) -> Tensor:
            return self.after(given, sampler(self.before(given)), given.last)

        return spoiled


def raw_softmax(given: Rounds) -> Rounds:
    """The ratio sees the softmax before truncation, from which drafts are not drawn (CASES B1)."""
    size = given.draft.shape[1]
    return replace(given, draft=KEPT_MASS * given.draft + (1 - KEPT_MASS) / size)


def not_renormalised(given: Rounds) -> Rounds:
    """Draft rows after truncation that do not add up to 1 again."""
    return replace(given, draft=KEPT_MASS * given.draft)


def untempered_bonus(given: Rounds) -> Rounds:
    """The row behind the last draft is the target's without its temperature."""
    flat = given.target**FLATTER
    flat = torch.cat([given.target, flat / flat.sum(1, keepdim=True)])
    position = given.position.clone()
    position[:, -1] += len(given.target)
    return replace(given, target=flat, position=position)


def residual_from_target(given: Rounds, tokens: Tensor, uniforms: Tensor) -> Tensor:
    """After a rejection the token is drawn from the target itself (CASES B3)."""
    count = counted(tokens)
    place = (count - 1)[:, None]
    row = given.target[given.position.gather(1, place).squeeze(1)]
    wrong = tokens.scatter(1, place, draw(row, uniforms)[:, None])
    return torch.where((count <= given.k)[:, None], wrong, tokens)


NO_DRAFT_ROWS = "the sampler does not read draft probabilities"
DEFECTS = (
    Mutant("ratio with the raw softmax", NO_DRAFT_ROWS, raw_softmax),
    Mutant("draft rows not renormalised", NO_DRAFT_ROWS, not_renormalised),
    Mutant("residual from the target", "the sampler replaces no draft", after=residual_from_target),
    Mutant("bonus without temperature", "the sampler gives no bonus", untempered_bonus),
)


def mutant_error(mutant: Mutant, sampler: Sampler) -> float:
    """Total variation of the spoiled sampler over three rounds, on the first table that shows it.

    0 where it shows on none.
    """
    for table in MUTANT_TABLES:
        law = chain_law(mutant.around(sampler), table).chained(table.length)
        found = distance(law, own_law(table.target, table.length))
        if found > VISIBLE:
            return found
    return 0.0


def unseen(mutant: Mutant, sampler: Sampler, seed: int) -> bool:
    """Whether the sampler's output stays the same on every one of many random rounds."""
    given = [random_rounds(table, TRIES, seed) for table in MUTANT_TABLES]
    return all(torch.equal(mutant.around(sampler)(one), sampler(one)) for one in given)


def random_rounds(table: LawTable, count: int, seed: int) -> Rounds:
    """Rounds with random starts, drafts and numbers."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.rand(count, 2 * table.k + 1, generator=generator, dtype=torch.float64)
    starts = torch.randint(table.size, (count,), generator=generator)
    ids = drawn_ids(table, starts, numbers[:, : table.k])
    return rounds(table, starts, ids, numbers[:, table.k : -1], numbers[:, -1])

"""Exact checks of a sampler whose random numbers are arguments: laws, planted defects and edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor

from specbench.laws.chains import chain_law
from specbench.laws.edges import beyond_transport, edge_outcomes, purity
from specbench.laws.outcome import Finding, Outcome, Status, guarded
from specbench.laws.outputs import EXACT, RoundLaw, conditional_distance, distance, own_law
from specbench.laws.planted import mutant_outcomes
from specbench.laws.rounds import Sampler
from specbench.laws.tables import TABLES, LawTable


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a token's law should be where a round reaches its place.

    Attributes:
        drafted, behind: float [V, V] rows by the token before, where a token is drafted, and
            behind the last draft.
        lossless: whether these are the target's rows, so that rounds can be chained.
    """

    drafted: Tensor
    behind: Tensor
    lossless: bool

    def places(self, k: int) -> list[Tensor]:
        """The law at each of K + 1 places."""
        return [self.drafted] * k + [self.behind]


Expect = Callable[[LawTable], Expectation]


def target_itself(table: LawTable) -> Expectation:
    """A sampler without loss."""
    return Expectation(table.target, table.target, True)


def exact_outcomes(
    name: str, sampler: Sampler, seed: int, expect: Expect = target_itself
) -> Iterator[Outcome]:
    """Everything that can be checked of a sampler; defects are planted in lossless ones alone."""
    pure = True
    for outcome in purity(name, sampler, seed):
        pure = pure and outcome.status is Status.PASSED
        yield outcome
    if not pure:
        detail = "the tokens do not follow from the arguments, so there is nothing to integrate"
        yield Outcome(name, "law", "any", Status.NOT_APPLICABLE, detail)
        return
    right = True
    for outcome in law_outcomes(name, sampler, expect):
        right = right and outcome.status is Status.PASSED
        yield outcome
    if expect(TABLES[0]).lossless:
        yield from mutant_outcomes(name, sampler, right, seed)
    # Last, since an id out of range may take a device down.
    yield from edge_outcomes(name, sampler, lambda table: expect(table).places(table.k))


def law_outcomes(
    name: str, sampler: Sampler, expect: Expect, tables: Sequence[LawTable] = TABLES
) -> Iterator[Outcome]:
    """The law of three rounds on every table, and of every token where its place is reached."""
    for table in tables:
        yield guarded(name, "law", table.name, partial(_law, sampler, expect, table))


def _law(sampler: Sampler, expect: Expect, table: LawTable) -> Finding:
    expected = expect(table)
    law = chain_law(sampler, table)
    own = replace(table, target=expected.drafted)
    problem = beyond_transport(law, own) if expected.lossless else ""
    return compared(law, expected, table.k, table.length, problem)


def compared(
    law: RoundLaw, expected: Expectation, k: int, length: int, problem: str = ""
) -> Finding:
    """A round's law beside what it should be; ``problem`` is what else is wrong with it."""
    if law.doubt > EXACT:
        share = f"{law.doubt:.1e}"
        return Finding(
            Status.FAILED, f"on {share} of all draws the tokens are no step function of one number"
        )
    off = conditional_distance(law, expected.places(k))
    if expected.lossless:
        off = max(off, distance(law.chained(length), own_law(expected.drafted, length)))
    detail = f"off by {off:.1e}, {float(law.mean_tokens().mean()):.3f} tokens per round"
    if off > EXACT:
        return Finding(Status.FAILED, detail, off, 0.0)
    return Finding(Status.FAILED if problem else Status.PASSED, problem or detail, off, 0.0)

"""Sequential checks of a sampler that draws from a generator: laws, planted defects and holes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from specbench.laws.codes import BrokenOutputError
from specbench.laws.mutants import DEFECTS, MUTANT_TABLES, TRIES, Mutant, random_rounds
from specbench.laws.noise_defects import REPEATED_NOISE, SHARED_NOISE
from specbench.laws.outcome import Finding, Outcome, Status, Work, guarded, off_itself, raised
from specbench.laws.rounds import PAD, Rounds, counted
from specbench.laws.sequential import watched
from specbench.laws.streams import Drawn, Noise
from specbench.laws.tables import ARGMAX, SAMPLED, TABLES, LawTable

ELSEWHERE = "the sampler draws numbers that are not its generator's"


class OwnDraws(Protocol):
    """A sampler that draws its numbers from a generator; ``device`` is where both live."""

    @property
    def device(self) -> torch.device: ...

    def __call__(self, given: Rounds, generator: torch.Generator) -> Tensor:
        """The emitted tokens int64 [B, K + 1] on the host."""
        ...


def generator_outcomes(name: str, sampler: OwnDraws, samples: int, seed: int) -> Iterator[Outcome]:
    """Everything that can be seen of a sampler that claims to be lossless.

    Args:
        samples: rounds per table; a test that convicts ends earlier.
    """
    trial = _Trial(sampler, samples, seed)
    right = True
    for table in TABLES:
        outcome = guarded(name, "law", table.name, partial(trial.watched, sampler, table))
        right = right and outcome.status is Status.PASSED
        yield outcome
    work: dict[str, Work] = {mutant.name: partial(trial.planted, mutant) for mutant in DEFECTS}
    work |= {SHARED_NOISE: trial.shared, REPEATED_NOISE: trial.repeated}
    for case, found in work.items():
        yield guarded(name, "mutant", case, found if right else off_itself)
    # Last, since an id out of range may take a device down.
    for table in (SAMPLED[1], ARGMAX[1]):
        for strange in (PAD, table.size, table.size + 5):
            found = partial(trial.watched, partial(_with_hole, sampler, strange), table)
            yield guarded(name, "edge", f"draft id {strange}, {table.name}", found)


def _with_hole(sampler: Drawn, strange: int, given: Rounds, generator: torch.Generator) -> Tensor:
    """The last draft names no token; ``BrokenOutputError`` where it counts as one."""
    ids = given.ids.clone()
    ids[:, -1] = strange
    tokens = sampler(replace(given, ids=ids), generator)
    if int(counted(tokens).max()) > given.k:
        raise BrokenOutputError(f"the id {strange} counted as a token")
    return tokens


@dataclass(frozen=True, slots=True)
class _Trial:
    """A sampler with the size of its tests."""

    sampler: OwnDraws
    samples: int
    seed: int

    def watched(self, sampler: Drawn, table: LawTable, noise: Noise = Noise.FRESH) -> Finding:
        return watched(sampler, table, self.samples, self.seed, self.sampler.device, noise)

    def once(self, sampler: Drawn, given: Rounds) -> Tensor:
        """Tokens from a generator in a known state."""
        return sampler(given, torch.Generator(self.sampler.device).manual_seed(self.seed))

    def same(self, one: Drawn, other: Drawn) -> bool:
        """Whether two samplers agree on every one of many random rounds."""
        given = [random_rounds(table, TRIES, self.seed) for table in MUTANT_TABLES]
        return all(torch.equal(self.once(one, g), self.once(other, g)) for g in given)

    def planted(self, mutant: Mutant) -> Finding:
        fresh = torch.Generator().manual_seed(self.seed + 2)

        def spoiled(given: Rounds, generator: torch.Generator) -> Tensor:
            tokens = self.sampler(mutant.before(given), generator)
            numbers = torch.rand(len(tokens), generator=fresh, dtype=torch.float64)
            return mutant.after(given, tokens, numbers)

        try:
            found = self.caught(spoiled)
            if found.status is Status.FAILED and self.same(self.sampler, spoiled):
                return Finding(Status.NOT_APPLICABLE, mutant.unseen)
            return found
        except Exception as error:  # a sampler may refuse such rows, which is as good
            return Finding(Status.PASSED, f"caught, it raises {raised(error)}")

    def caught(self, sampler: Drawn, noise: Noise = Noise.FRESH) -> Finding:
        """The first table that convicts."""
        for table in MUTANT_TABLES:
            found = self.watched(sampler, table, noise)
            if found.status is Status.FAILED:
                return Finding(
                    Status.PASSED, f"caught: {found.detail}", found.off, found.detectable
                )
        return Finding(Status.FAILED, "escaped: the check has no power, raise --samples")

    def shared(self) -> Finding:
        if not self.same(self.sampler, self.sampler):
            return Finding(Status.NOT_APPLICABLE, ELSEWHERE)
        found = self.caught(self.sampler, Noise.SHARED)
        if found.status is Status.PASSED:
            return found
        # The draft's numbers meet the sampler's only where both are laid out alike.
        return Finding(Status.NOT_APPLICABLE, "cannot be planted from outside in this sampler")

    def repeated(self) -> Finding:
        if not self.same(self.sampler, self.sampler):
            return Finding(Status.NOT_APPLICABLE, ELSEWHERE)
        return self.caught(self.sampler, Noise.REPEATED)

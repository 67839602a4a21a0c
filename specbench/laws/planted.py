"""Planted defects in a sampler whose random numbers are arguments: each must show."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from specbench.laws.mutants import DEFECTS, VISIBLE, Mutant, mutant_error, unseen
from specbench.laws.noise_defects import (
    KEYED_NOISE,
    SHARED_NOISE,
    keyed_noise_error,
    reads_behind,
    shared_noise_error,
)
from specbench.laws.outcome import Finding, Outcome, Status, Work, guarded, off_itself, raised
from specbench.laws.rounds import Sampler


def mutant_outcomes(name: str, sampler: Sampler, right: bool, seed: int) -> Iterator[Outcome]:
    """Every planted defect: caught, or why it leaves no trace here.

    ``right``: whether the sampler itself has the target's law; otherwise any defect looks caught.
    """
    work: dict[str, Work] = {
        mutant.name: partial(_planted, mutant, sampler, seed) for mutant in DEFECTS
    }
    work[SHARED_NOISE] = lambda: _caught(shared_noise_error(sampler))
    work[KEYED_NOISE] = partial(_keyed, sampler, seed)
    for case, found in work.items():
        yield guarded(name, "mutant", case, found if right else off_itself)


def _planted(mutant: Mutant, sampler: Sampler, seed: int) -> Finding:
    try:
        off = mutant_error(mutant, sampler)
        if off <= VISIBLE and unseen(mutant, sampler, seed):
            return Finding(Status.NOT_APPLICABLE, mutant.unseen)
    except Exception as error:  # a sampler may refuse such rows, which is as good as a wrong law
        return Finding(Status.PASSED, f"caught, it raises {raised(error)}")
    return _caught(off)


def _keyed(sampler: Sampler, seed: int) -> Finding:
    if not reads_behind(sampler, seed):
        return Finding(Status.NOT_APPLICABLE, "nothing behind the last emitted token is read")
    return _caught(keyed_noise_error(sampler))


def _caught(off: float) -> Finding:
    if off > VISIBLE:
        return Finding(Status.PASSED, f"caught, off by {off:.4f}", off, 0.0)
    return Finding(Status.FAILED, f"escaped, off by {off:.1e}: the check has no power", off, 0.0)

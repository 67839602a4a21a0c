"""One way in: every check of a sampler given by name, or of a rule of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator

from specbench.laws.adapters import Adapter, CountsSampler, GeneratorSampler, UniformsSampler
from specbench.laws.counting import counts_outcomes
from specbench.laws.exact import exact_outcomes
from specbench.laws.listed_rules import rule_outcomes
from specbench.laws.named import load_device, load_sampler
from specbench.laws.outcome import Outcome
from specbench.laws.sampled import generator_outcomes

SAMPLES = 200_000
"""Rounds per table where a sampler draws its own numbers."""


def check_rule(name: str, seed: int = 0) -> Iterator[Outcome]:
    """Outcomes of the catalogue's rule ``name``, as they are found; UsageError if unknown."""
    return rule_outcomes(name, SAMPLES, seed)


def check_sampler(
    name: str, adapter: Adapter, *, device: str = "cpu", samples: int = SAMPLES, seed: int = 0
) -> Iterator[Outcome]:
    """Outcomes of ``module:function``, as they are found; the sampler should be lossless.

    Args:
        name: where the function lies.
        adapter: how it is called.
        device: where its tensors live.
        samples: rounds per table; exact checks take none.
        seed: of everything random.

    Raises:
        UsageError, PrerequisiteError: the function or the device cannot be had.
    """
    function, place = load_sampler(name), load_device(device)
    if adapter is Adapter.UNIFORMS:
        yield from exact_outcomes(name, UniformsSampler(function, place), seed)
    elif adapter is Adapter.GENERATOR:
        yield from generator_outcomes(name, GeneratorSampler(function, place), samples, seed)
    else:
        yield from counts_outcomes(name, CountsSampler(function, place), samples, seed)

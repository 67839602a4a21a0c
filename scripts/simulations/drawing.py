"""Many simulated experiments at once: prompts, their requests, counts and times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .population import NOISE, Arm, Array, Noise, Population, acceptance

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Prompts:
    """Prompts of several experiments and their requests.

    Attributes:
        population: they are drawn from.
        experiments, each: how many experiments, and prompts of each.
        length, accepts, cost: one entry per prompt: normal score of its length, chance that a draft
            is accepted, and factor of the cost of a step.
        prompt, turn, repeat: one entry per request; requests of a prompt follow each other.
    """

    population: Population
    experiments: int
    each: int
    length: Array
    accepts: Array
    cost: Array
    prompt: Numbers
    turn: Numbers
    repeat: Numbers

    def totals(self, values: NDArray[np.generic]) -> Array:
        """Values per request, summed over those of a prompt, [experiments, prompts]."""
        count = self.experiments * self.each
        found = np.bincount(self.prompt, values, count).astype(np.float64)
        return found.reshape(self.experiments, self.each)


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """What an arm decoded, one entry per request.

    Attributes:
        tokens: behind the first one.
        steps: that committed them.
        judged, accepted: drafts that were looked at, and those that were right; of the last step
            too where the end of the answer cut them.
    """

    tokens: Numbers
    steps: Numbers
    judged: Numbers
    accepted: Numbers


def draw_prompts(
    population: Population, experiments: int, each: int, rng: np.random.Generator
) -> Prompts:
    """Independent experiments of as many prompts."""
    count = experiments * each
    length, other, cost = rng.standard_normal((3, count))
    log_cost = population.cost_by_length * length + _mean_one(cost, population.cost_spread)
    turns = 1 + rng.choice(len(population.turns), count, p=population.turns)
    requests = turns * population.repeats
    prompt = np.repeat(np.arange(count), requests)
    number = np.arange(len(prompt)) - np.repeat(np.cumsum(requests) - requests, requests)
    return Prompts(
        population,
        experiments,
        each,
        length,
        acceptance(population, length, other),
        np.exp(log_cost),
        prompt,
        number // population.repeats,
        number % population.repeats,
    )


def draw_lengths(prompts: Prompts, rng: np.random.Generator) -> Numbers:
    """Tokens behind the first one, of each request."""
    own, count = prompts.population, len(prompts.prompt)
    score = own.length_spread * prompts.length[prompts.prompt]
    score += own.request_spread * rng.standard_normal(count)
    tokens = np.clip(np.rint(own.median_tokens * np.exp(score)), 2, own.longest).astype(np.int64)
    at_once = rng.random(count) < own.early
    return np.where(at_once, rng.integers(2, own.early_tokens + 1, count), tokens) - 1


def draw_counts(prompts: Prompts, tokens: Numbers, arm: Arm, rng: np.random.Generator) -> Counts:
    """Steps until so many tokens are there."""
    steps, judged, accepted = np.zeros((3, len(tokens)), np.int64)
    if not arm.k:
        return Counts(tokens, tokens.copy(), judged, accepted)
    rate = -arm.power * np.log(prompts.accepts)[prompts.prompt]
    left, open_ = tokens.copy(), np.arange(len(tokens))
    while len(open_):
        # Of an exponential variable the whole part is geometric.
        run = rng.standard_exponential(len(open_)) / rate[open_]
        right = np.minimum(run, arm.k).astype(np.int64)
        steps[open_] += 1
        accepted[open_] += right
        judged[open_] += np.minimum(right + 1, arm.k)
        left[open_] -= right + 1
        open_ = open_[left[open_] > 0]
    return Counts(tokens, steps, judged, accepted)


def draw_own(prompts: Prompts, arm: Arm, rng: np.random.Generator) -> Array:
    """What an arm makes of each prompt's cost; runs of one arm have it alike."""
    return np.exp(_mean_one(rng.standard_normal(len(prompts.cost)), arm.own_spread))


def draw_ms(
    prompts: Prompts,
    counts: Counts,
    arm: Arm,
    own: Array,
    rng: np.random.Generator,
    noise: Noise = NOISE,
) -> Array:
    """Decode time of each request."""
    count = len(counts.steps)
    factor = np.exp(_mean_one(rng.standard_normal(count), noise.spread))
    stall = (rng.random(count) < noise.stalls) * noise.size * rng.pareto(noise.shape, count)
    cost = (prompts.cost * own)[prompts.prompt]
    return np.asarray(arm.step_ms * counts.steps * cost * factor * (1 + stall))


def _mean_one(score: Array, spread: float) -> Array:
    """Logarithms whose exponentials have mean 1."""
    return spread * score - spread**2 / 2

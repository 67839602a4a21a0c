"""Where simulated prompts come from, and the true values of their ratios of totals.

A prompt has a length, an acceptance and a cost of its own, which its turns and repeats share: long
answers are accepted more often and have slower steps, so that no ratio of totals is a mean of
ratios. A step accepts a truncated geometric number of K drafts and commits one token more; the last
one is cut where the answer ends. Expected values are integrals over what a prompt is, by
Gauss-Hermite quadrature, and sums over lengths, without any random number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

Array = NDArray[np.float64]
NODES = 48
"""Of each of the two integrals; twice as many change no ratio by 1e-4 (tests/simulations)."""


@dataclass(frozen=True, slots=True)
class Population:
    """Prompts of one suite, at one temperature.

    Attributes:
        median_tokens: of an answer that does not end early.
        length_spread, request_spread: deviations of the log length between prompts, and between
            requests of one.
        longest: tokens at which an answer is cut.
        early, early_tokens: share of answers that end at once, and their most tokens.
        acceptance: of one draft: parameters of its Beta distribution over prompts.
        follows: correlation of acceptance and log length, in normal scores.
        cost_by_length, cost_spread: log cost of a step by deviation of the log length, and the rest
            of its deviation between prompts; plain and every arm have it alike.
        turns: shares of prompts with one turn, two and more.
        repeats: of each turn.
    """

    name: str
    median_tokens: float = 90.0
    length_spread: float = 0.7
    request_spread: float = 0.4
    longest: int = 512
    early: float = 0.08
    early_tokens: int = 24
    acceptance: tuple[float, float] = (3.0, 2.0)
    follows: float = 0.4
    cost_by_length: float = 0.06
    cost_spread: float = 0.15
    turns: tuple[float, ...] = (0.6, 0.3, 0.1)
    repeats: int = 2


@dataclass(frozen=True, slots=True)
class Arm:
    """How a population's prompts are decoded; the default is plain decoding.

    Attributes:
        k: drafts of a step.
        step_ms: mean cost of a step.
        power: a prompt's acceptance is raised to it; above 1 fewer drafts are accepted.
        own_spread: deviation of the log cost between prompts that is this arm's alone.
    """

    k: int = 0
    step_ms: float = 8.0
    power: float = 1.0
    own_spread: float = 0.0


@dataclass(frozen=True, slots=True)
class Noise:
    """What multiplies the time of a request: lognormal, and rarely Pareto (Lomax) stalls.

    Attributes:
        spread: deviation of the logarithm; its mean is 1.
        stalls, size, shape: share of requests that stall, scale of the stall relative to the
            request, and exponent of its tail; at 2.5 it has a variance and no third moment.
    """

    spread: float = 0.08
    stalls: float = 0.03
    size: float = 0.5
    shape: float = 2.5

    @property
    def mean(self) -> float:
        """Expected factor."""
        return 1 + self.stalls * self.size / (self.shape - 1)


@dataclass(frozen=True, slots=True)
class Expected:
    """Of one request: tokens behind the first, decode steps, and their time in ms."""

    tokens: float
    steps: float
    ms: float


NOISE = Noise()


@lru_cache(maxsize=256)
def expected(
    population: Population, arm: Arm, noise: Noise = NOISE, nodes: int = NODES
) -> Expected:
    """Expected totals of one request, whose ratios are what intervals should hold."""
    points, weights = special.roots_hermitenorm(nodes)
    weights = weights / weights.sum()
    length, other = (grid.ravel() for grid in np.meshgrid(points, points, indexing="ij"))
    weight = np.outer(weights, weights).ravel()
    share = length_shares(population, length)
    steps = (
        share
        * steps_needed(
            acceptance(population, length, other) ** arm.power, arm.k, share.shape[1] + 1
        )
    ).sum(axis=1)
    cost = np.exp(population.cost_by_length * length)
    tokens = float(weight @ (share @ np.arange(1, share.shape[1] + 1)))
    ms = arm.step_ms * noise.mean * float(weight @ (steps * cost))
    return Expected(tokens, float(weight @ steps), ms)


def length_shares(population: Population, length: Array) -> Array:
    """Chance of 1, 2, … tokens behind the first, of prompts with a normal score of length.

    Returns:
        [prompts, longest - 1].
    """
    at = np.arange(2, population.longest)
    centre = np.log(population.median_tokens) + population.length_spread * length
    score = (np.log(at + 0.5) - centre[:, None]) / population.request_spread
    below = np.concatenate([np.zeros((len(length), 1)), stats.norm.cdf(score)], axis=1)
    share = (1 - population.early) * np.diff(below, append=1.0)
    share[:, : population.early_tokens - 1] += population.early / (population.early_tokens - 1)
    return share


def acceptance(population: Population, length: Array, other: Array) -> Array:
    """Of one draft, of prompts with these independent normal scores."""
    kept = np.sqrt(1 - population.follows**2)
    share = special.ndtr(population.follows * length + kept * other)
    return np.asarray(special.betaincinv(*population.acceptance, share))


def steps_needed(accepted: Array, k: int, end: int) -> Array:
    """Expected steps until 1, 2, … ``end`` - 1 tokens are committed, by the renewal equation.

    Args:
        accepted: chance of each draft, one entry per prompt.
        k: drafts of a step, which commits 1 to k + 1 tokens.

    Returns:
        [prompts, end - 1].
    """
    held = accepted[:, None] ** np.arange(k + 1)
    chances = held - np.append(held[:, 1:], np.zeros((len(accepted), 1)), axis=1)
    # Place k + t holds t tokens; nothing is needed for none or fewer.
    found = np.zeros((len(accepted), k + end))
    for tokens in range(1, end):
        before = found[:, tokens - 1 : tokens + k][:, ::-1]
        found[:, k + tokens] = 1 + (chances * before).sum(axis=1)
    return found[:, k + 1 :]


def worse_by(population: Population, arm: Arm, accept_length: float, speedup: float) -> Arm:
    """The arm with so much less accept length and speed-up, as ratios of the true values."""
    before = expected(population, arm)

    def steps(power: float) -> float:
        found = expected(population, replace(arm, power=power))
        return found.steps * accept_length / before.steps - 1

    power = float(optimize.brentq(steps, arm.power, 2 * arm.power, xtol=1e-10))
    slower = replace(arm, power=power)
    ms = arm.step_ms * before.ms / speedup / expected(population, slower).ms
    return replace(slower, step_ms=ms)

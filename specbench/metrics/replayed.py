"""Drafts scored on recorded tokens, all at the same places: accept length, differences, coverage.

Speed is not among them: nothing was decoded. Totals are pooled over requests (sum over sum), and
intervals resample whole prompts, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from specbench.core.quantity import Quantity, nothing
from specbench.core.request import RequestKey
from specbench.metrics.units import sums
from specbench.stats.bootstrap import total_ratio
from specbench.stats.difference import difference_of_ratios

LENGTH = "tokens/step"
NOT_A_BEGINNING = "shorter drafts are other drafts; see the longest"
NO_PLACE = "no place where a token could have been drafted"


@dataclass(frozen=True, slots=True)
class Steps:
    """Decode steps of one request under one longest draft.

    Attributes:
        count: expected number of steps; whole at temperature 0.
        accepted: expected number of steps with 0, 1 .. K accepted tokens.
    """

    count: float
    accepted: tuple[float, ...]


@dataclass(slots=True)
class DraftScore:
    """One draft on one request.

    Attributes:
        steps: by longest draft.
        places: where a token could have been drafted.
        empty: places without a draft.
        overlap: by depth, sum over places of the chance that a draft there is accepted, each
            weighted with the chance that the depth is reached.
        reached: by depth, sum of these weights.
        outside: output tokens that are not in the draft's vocabulary.
        cut: whether a shorter draft is the beginning of the longest. ``places`` to ``reached`` are
            of the longest draft, and of a shorter one only then.
    """

    steps: dict[int, Steps] = field(default_factory=dict)
    places: int = 0
    empty: int = 0
    overlap: list[float] = field(default_factory=list)
    reached: list[float] = field(default_factory=list)
    outside: int = 0
    cut: bool = True


@dataclass(frozen=True, slots=True)
class ReplayedRequest:
    """One recorded request.

    Attributes:
        key: which.
        tokens: output tokens behind the first, which the prefill gives.
        foreign: tokens that the target would not have emitted here: not its first choice at
            temperature 0, of probability 0 above it.
        drafts: by name.
    """

    key: RequestKey
    tokens: int
    foreign: int
    drafts: Mapping[str, DraftScore]


Requests = Sequence[ReplayedRequest]
Count = Callable[[ReplayedRequest], float]


def replayed_length(requests: Requests, draft: str, k: int, *, seed: int) -> Quantity:
    """``accept_length``: tokens behind the first per decode step, with drafts of at most ``k``.

    Exact at temperature 0, the expectation given the recorded tokens above it.
    """
    return _ratio(requests, _tokens, _steps(draft, k), LENGTH, seed, "no decode steps")


def length_difference(requests: Requests, draft: str, other: str, k: int, *, seed: int) -> Quantity:
    """Accept length of ``draft`` less that of ``other``, paired by prompt."""
    tokens = _sums(requests, _tokens)
    return difference_of_ratios(
        tokens,
        _sums(requests, _steps(draft, k)),
        tokens,
        _sums(requests, _steps(other, k)),
        seed=seed,
        unit=LENGTH,
    )


def replayed_alpha(requests: Requests, draft: str, k: int, depth: int, *, seed: int) -> Quantity:
    """Chance that a draft at a depth of drafts of at most ``k`` is accepted where it is reached.

    At depth 1 it is the mean of sum min(target, draft) over all places with a draft. Deeper places
    count with the chance that they are reached behind the recorded tokens. Not available for drafts
    that were asked for only where a step begins.
    """
    if _other_drafts(requests, draft, k):
        return nothing(NOT_A_BEGINNING, "1")
    return _ratio(
        requests,
        lambda request: _at(request.drafts[draft].overlap, depth),
        lambda request: _at(request.drafts[draft].reached, depth),
        "1",
        seed,
        f"no draft reached depth {depth}",
    )


def without_draft(requests: Requests, draft: str, k: int, *, seed: int) -> Quantity:
    """Share of places without a draft, where at most ``k`` tokens may be drafted."""
    if _other_drafts(requests, draft, k):
        return nothing(NOT_A_BEGINNING, "1")
    return _ratio(
        requests,
        lambda request: request.drafts[draft].empty,
        lambda request: request.drafts[draft].places,
        "1",
        seed,
        NO_PLACE,
    )


def outside_vocabulary(requests: Requests, draft: str, *, seed: int) -> Quantity:
    """Share of output tokens that the draft cannot propose, whatever the context."""
    return _ratio(
        requests,
        lambda request: request.drafts[draft].outside,
        lambda request: request.tokens + 1,
        "1",
        seed,
        "no output",
    )


def _other_drafts(requests: Requests, draft: str, k: int) -> bool:
    """Whether drafts of at most ``k`` tokens were not looked at everywhere."""
    scores = [request.drafts[draft] for request in requests]
    return any(not score.cut and k < max(score.steps) for score in scores)


def _ratio(
    requests: Requests, top: Count, bottom: Count, unit: str, seed: int, empty: str
) -> Quantity:
    if not requests:
        return nothing("no request was replayed", unit)
    return total_ratio(
        _sums(requests, top), _sums(requests, bottom), seed=seed, unit=unit, empty=empty
    )


def _sums(requests: Requests, count: Count) -> list[float]:
    labels = [f"{request.key.suite}/{request.key.item}" for request in requests]
    return sums(labels, [count(request) for request in requests])


def _tokens(request: ReplayedRequest) -> float:
    return request.tokens


def _steps(draft: str, k: int) -> Count:
    return lambda request: request.drafts[draft].steps[k].count


def _at(values: Sequence[float], depth: int) -> float:
    return values[depth - 1] if depth <= len(values) else 0.0

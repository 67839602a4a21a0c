"""Numbers about the prompts of a suite, and whether they are fit for measuring (case D15).

Acceptance on filler, on text repeated over and over or on one prompt sent again and again says
nothing about real traffic. All of it shows in the prompts, before anything is measured.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from statistics import median

from specbench.core.suite import Prompt
from specbench.suites.describe import text_of_prompt, words_of

SAMPLE = 10_000
"""Over a longer text the share of distinct tokens falls for any language, so it is cut here."""

FEWEST_DISTINCT = 0.01
"""Distinct over all tokens of a suite; real text stays well above it."""

FEWEST_DISTINCT_OF_ONE = 0.05
LONG_ENOUGH = 100
"""Tokens under which one prompt is too short to be called repetitive."""

SHARED_BEGINNING = 0.5

Encode = Callable[[str], Sequence[int]]
Units = Sequence[str] | Sequence[int]


@dataclass(frozen=True, slots=True)
class Spread:
    """Smallest, median, 90th percentile (nearest rank) and largest of a list of sizes."""

    minimum: int
    median: float
    p90: int
    maximum: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the prompts of a suite look like.

    A prompt's text is all that is sent before the last answer: system message or context, and
    the turns, without answers and without a chat template.

    Attributes:
        unit: ``tokens``, or ``words`` where no tokenizer was given.
        prompts, requests: conversations and turns.
        characters: per prompt.
        units: tokens or words per prompt.
        distinct_share: different units over all units, of the first 10 000; None without any.
        duplicates: prompts with the same text and request fields as an earlier one.
        recycled_turns: user texts that occur earlier in the suite, in any conversation.
        common_prefix: units that all prompts begin with.
        shared_share: share of all units that stand in a beginning shared with another prompt:
            what a cache that keeps every prompt would not compute again.
        warnings: reasons to distrust a measurement on these prompts.
    """

    unit: str
    prompts: int
    requests: int
    characters: Spread
    units: Spread
    distinct_share: float | None
    duplicates: int
    recycled_turns: int
    common_prefix: int
    shared_share: float
    warnings: tuple[str, ...] = ()


def prompt_statistics(prompts: Sequence[Prompt], encode: Encode | None = None) -> Statistics:
    """Measure the prompts of a suite, or those that a run selected.

    Args:
        encode: token ids of a text, without special tokens; None counts words.

    Raises:
        ValueError: no prompts.
    """
    if not prompts:
        raise ValueError("no prompts to measure")
    texts = [text_of_prompt(prompt) for prompt in prompts]
    units: list[Units] = [
        words_of(prompt) if encode is None else list(encode(text))
        for prompt, text in zip(prompts, texts, strict=True)
    ]
    beginnings = [tuple(text) for text in units]
    total = sum(map(len, units))
    shared = sum(_common(a, b) for a, b in pairwise(sorted(beginnings)))
    found = Statistics(
        unit="words" if encode is None else "tokens",
        prompts=len(prompts),
        requests=sum(len(prompt.turns) for prompt in prompts),
        characters=_spread([len(text) for text in texts]),
        units=_spread([len(text) for text in units]),
        distinct_share=_distinct_share(unit for text in units for unit in text),
        duplicates=_repeated(
            (text, json.dumps(dict(prompt.passed_on), sort_keys=True))
            for prompt, text in zip(prompts, texts, strict=True)
        ),
        recycled_turns=_repeated(turn for prompt in prompts for turn in prompt.turns),
        common_prefix=_common(min(beginnings), max(beginnings)) if len(prompts) > 1 else 0,
        shared_share=shared / total if total else 0.0,
    )
    return replace(found, warnings=tuple(_warnings(found, prompts, units)))


def _warnings(
    found: Statistics, prompts: Sequence[Prompt], units: Sequence[Units]
) -> Iterator[str]:
    if found.distinct_share is not None and found.distinct_share < FEWEST_DISTINCT:
        yield (
            f"degenerate: {found.distinct_share:.4f} of the {found.unit} are distinct; acceptance "
            "on filler says nothing about real text"
        )
    repetitive = [
        prompt.id
        for prompt, text in zip(prompts, units, strict=True)
        if len(text) >= LONG_ENOUGH and len(set(text)) < FEWEST_DISTINCT_OF_ONE * len(text)
    ]
    if repetitive:
        yield f"{len(repetitive)} prompts repeat themselves, first {repetitive[0]}"
    if found.duplicates:
        yield (
            f"{found.duplicates} of {found.prompts} prompts are sent again: a prefix cache has "
            "them, and n-gram tables know them"
        )
    if found.recycled_turns > found.duplicates:
        yield f"{found.recycled_turns} of {found.requests} turns ask what was asked before"
    if found.shared_share > SHARED_BEGINNING and not found.duplicates:
        yield (
            f"{found.shared_share:.0%} of the {found.unit} are beginnings shared with another "
            "prompt: TTFT depends on the prefix cache"
        )


def _spread(sizes: Sequence[int]) -> Spread:
    ordered = sorted(sizes)
    return Spread(
        ordered[0], float(median(ordered)), ordered[ceil(0.9 * len(ordered)) - 1], ordered[-1]
    )


def _distinct_share(units: Iterable[object]) -> float | None:
    first = [unit for unit, _ in zip(units, range(SAMPLE), strict=False)]
    return len(set(first)) / len(first) if first else None


def _repeated(values: Iterable[object]) -> int:
    return sum(count - 1 for count in Counter(values).values())


def _common(a: Sequence[object], b: Sequence[object]) -> int:
    """Length of the common beginning."""
    size = min(len(a), len(b))
    return next((i for i in range(size) if a[i] != b[i]), size)

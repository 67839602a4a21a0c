"""What a suite holds, and reasons to distrust it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from specbench.core.suite import Prompt, Suite
from specbench.suites.messages import text_of

DEGENERATE_BELOW = 0.05
"""Share of distinct words under which text is filler: speculation on it is flattered."""

LENGTHS = ((32, "up to 32 words"), (128, "33-128 words"), (512, "129-512 words"))
LONGEST = "over 512 words"

# Chinese and Japanese write no spaces: each of their characters counts as one word.
_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")


@dataclass(frozen=True, slots=True)
class Description:
    """Counts over a suite.

    ``counts`` maps a grouping (category, split, turns, length, tag, scoring) to name -> number of
    prompts. Words are those of system message (or context) and turns of one prompt, without
    recorded answers.
    ``distinct_share`` is different words over all words of the suite, None without any word.
    """

    name: str
    version: str
    licence: str
    digest: str
    prompts: int
    turns: int
    counts: Mapping[str, Mapping[str, int]]
    words_min: int
    words_median: float
    words_max: int
    distinct_share: float | None
    warnings: tuple[str, ...]


def describe(suite: Suite) -> Description:
    """Count what a suite holds and list reasons to distrust it."""
    words = {prompt.id: words_of(prompt) for prompt in suite.prompts}
    sizes = [len(found) for found in words.values()]
    return Description(
        name=suite.name,
        version=suite.version,
        licence=suite.licence,
        digest=suite.digest,
        prompts=len(suite.prompts),
        turns=suite.turns,
        counts={
            "category": {
                name: sum(prompt.category == name for prompt in suite.prompts)
                for name in suite.categories
            },
            "split": _count(prompt.split for prompt in suite.prompts),
            "turns": {
                str(turns): sum(len(prompt.turns) == turns for prompt in suite.prompts)
                for turns in sorted({len(prompt.turns) for prompt in suite.prompts})
            },
            "length": {
                name: sum(length_of(size) == name for size in sizes)
                for name in [*(name for _, name in LENGTHS), LONGEST]
            },
            "tag": _count(tag for prompt in suite.prompts for tag in prompt.tags),
            "scoring": _count(p.scoring.kind if p.scoring else "none" for p in suite.prompts),
        },
        words_min=min(sizes, default=0),
        words_median=median(sizes) if sizes else 0,
        words_max=max(sizes, default=0),
        distinct_share=distinct_share([word for found in words.values() for word in found]),
        warnings=tuple(_warnings(suite, words)),
    )


def words_of(prompt: Prompt) -> list[str]:
    """Words of all that is sent, in lower case."""
    return [word.lower() for word in _WORD.findall(text_of_prompt(prompt))]


def text_of_prompt(prompt: Prompt) -> str:
    """All that is sent of a prompt, without recorded answers to turns, in paragraphs."""
    first = [text_of(m) for m in prompt.context] or [prompt.system or "", prompt.turns[0]]
    return "\n\n".join(part for part in [*first, *prompt.turns[1:]] if part)


def length_of(words: int) -> str:
    """The length class of a prompt with that many words."""
    return next((name for most, name in LENGTHS if words <= most), LONGEST)


def distinct_share(words: list[str]) -> float | None:
    """Different words over all words; None where there are none."""
    return len(set(words)) / len(words) if words else None


def _count(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def _warnings(suite: Suite, words: Mapping[str, list[str]]) -> Iterable[str]:
    if suite.skipped:
        yield f"{len(suite.skipped)} rows were skipped"
    first: dict[str, str] = {}
    for prompt in suite.prompts:
        asked = [prompt.system, prompt.turns, prompt.context, prompt.passed_on]
        same = first.setdefault(json.dumps(asked, sort_keys=True), prompt.id)
        if same != prompt.id:
            yield f"{prompt.id}: duplicate of {same}"
        share = distinct_share(words[prompt.id])
        if share is None:
            yield f"{prompt.id}: no words"
        elif share < DEGENERATE_BELOW:
            yield f"{prompt.id}: degenerate, {share:.3f} of its words are distinct"
        translation = prompt.scoring is not None and prompt.scoring.kind == "translation"
        if translation and not prompt.reference:
            yield f"{prompt.id}: translation without a reference"
    share = distinct_share([word for found in words.values() for word in found])
    if share is not None and share < DEGENERATE_BELOW:
        yield f"suite {suite.name}: degenerate, {share:.3f} of its words are distinct"
    used = {prompt.category for prompt in suite.prompts}
    for name in suite.categories:
        if name not in used:
            yield f"category {name}: no prompts"

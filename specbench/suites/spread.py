"""The order in which prompts are chosen: one of each category in turn, hashed inside each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

from specbench.core.suite import Prompt


def spread(
    prompts: Iterable[Prompt], categories: Sequence[str], suite_name: str, seed: int = 0
) -> list[Prompt]:
    """Prompts of those categories, so that every beginning is spread over them.

    Inside a category the order is a hash of seed, suite and id, not that of the file.
    """
    groups: dict[str, list[Prompt]] = {category: [] for category in categories}
    for prompt in prompts:
        if prompt.category in groups:
            groups[prompt.category].append(prompt)
    for group in groups.values():
        group.sort(key=lambda p: sha256(f"{seed}/{suite_name}/{p.id}".encode()).digest())
    longest = max(map(len, groups.values()), default=0)
    return [group[i] for i in range(longest) for group in groups.values() if i < len(group)]

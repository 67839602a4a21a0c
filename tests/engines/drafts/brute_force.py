"""Speculative decoding by enumeration: every draft, every verdict, every token, with its chance.

Nothing here knows that outputs have the target's law, nor what is known of a step given its output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

Tokens = tuple[int, ...]
Law = Callable[[Tokens], np.ndarray]
"""Tokens before a position -> probabilities there."""
Step = Callable[[Tokens, int], Iterator[tuple[float, Tokens, int]]]
"""(tokens, longest draft) -> chance, emitted tokens and accepted drafts of every possible step."""


@dataclass
class Known:
    """Of all ways to one output: their chance, and chance-weighted steps and accepted counts."""

    chance: float
    steps: float
    accepted: np.ndarray


def outputs(
    prompt: Tokens, target: Law, step: Step, k: int, limit: int, end: int
) -> dict[Tokens, Known]:
    """Every output of at most ``limit`` tokens or up to ``end``; the first is the prefill's."""
    found: dict[Tokens, Known] = {}
    for first, chance in enumerate(target(prompt)):
        rest = {(): Known(1.0, 0.0, np.zeros(k + 1))}
        if first != end and limit > 1:
            rest = _behind((*prompt, first), step, k, limit - 1, end)
        for tail, known in rest.items():
            _add(found, (first, *tail), float(chance), known)
    return dict(sorted(found.items()))


def _behind(tokens: Tokens, step: Step, k: int, left: int, end: int) -> dict[Tokens, Known]:
    found: dict[Tokens, Known] = {}
    # The last token of an output needs no draft.
    for chance, emitted, accepted in step(tokens, min(k, left - 1)):
        if not chance:
            continue
        kept = emitted[: emitted.index(end) + 1] if end in emitted else emitted
        over = end in emitted or len(kept) == left
        counted = np.zeros(k + 1)
        counted[min(accepted, len(kept))] = 1.0
        rest = {(): Known(1.0, 0.0, np.zeros(k + 1))}
        if not over:
            rest = _behind((*tokens, *kept), step, k, left - len(kept), end)
        for tail, known in rest.items():
            more = Known(
                known.chance, known.steps + known.chance, known.accepted + known.chance * counted
            )
            _add(found, (*kept, *tail), chance, more)
    return found


def _add(found: dict[Tokens, Known], output: Tokens, chance: float, known: Known) -> None:
    old = found.setdefault(output, Known(0.0, 0.0, np.zeros_like(known.accepted)))
    old.chance += chance * known.chance
    old.steps += chance * known.steps
    old.accepted = old.accepted + chance * known.accepted


def rejection(target: Law, draft: Law) -> Step:
    """A chain drawn from ``draft``: accept with min(1, p/q), else draw from relu(p - q)."""

    def step(tokens: Tokens, room: int) -> Iterator[tuple[float, Tokens, int]]:
        yield from _chain(tokens, (), room, 1.0)

    def _chain(
        tokens: Tokens, taken: Tokens, room: int, chance: float
    ) -> Iterator[tuple[float, Tokens, int]]:
        p = target((*tokens, *taken))
        if len(taken) == room:
            for bonus, more in enumerate(p):
                yield chance * more, (*taken, bonus), len(taken)
            return
        q = draft((*tokens, *taken))
        for x, drawn in enumerate(q):
            if not drawn:
                continue
            accept = min(1.0, p[x] / q[x])
            yield from _chain(tokens, (*taken, x), room, chance * drawn * accept)
            left = np.maximum(p - q, 0.0)
            if accept < 1.0:
                for y, more in enumerate(left / left.sum()):
                    yield chance * drawn * (1 - accept) * more, (*taken, y), len(taken)

    return step


def sequential(target: Law, children: Callable[[Tokens, Tokens], list[int]]) -> Step:
    """A tree without chance: children are tried in turn, each that fails leaves the target's row.

    ``children(tokens, path)`` are the candidates behind ``path`` of the tree drafted at ``tokens``.
    """

    def step(tokens: Tokens, room: int) -> Iterator[tuple[float, Tokens, int]]:
        yield from _node(tokens, (), room, 1.0)

    def _node(
        tokens: Tokens, taken: Tokens, room: int, chance: float
    ) -> Iterator[tuple[float, Tokens, int]]:
        left = target((*tokens, *taken)).copy()
        for x in children(tokens, taken) if len(taken) < room else []:
            yield from _node(tokens, (*taken, x), room, chance * left[x])
            chance *= 1 - left[x]
            left[x] = 0.0
            if left.sum() <= 0:
                return
            left /= left.sum()
        for y, more in enumerate(left):
            yield chance * more, (*taken, y), len(taken)

    return step

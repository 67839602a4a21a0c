"""Training a reference head on known lines, its own recycled states included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

STEPS = 4
"""Drafting steps that are unrolled; the first takes true features, the others the head's own."""
ENOUGH = 0.02
"""Mean cross-entropy at which training stops."""
ROUNDS = 400
RATE = 1e-2


@dataclass(frozen=True)
class Slots:
    """Every slot of every step: step 0 of a whole line, later steps from each base slot.

    Attributes:
        ids, positions, labels: int64 [R]; the label is the token after the next.
        source: int64 [R] slot whose state a recycled slot takes; of step 0, its feature's row.
        visible: bool [R, R]: true slots up to the base, and the base's own later steps.
        ends: slots of steps up to and with each step.
        judged: bool [R]: slots behind the prompt.
    """

    ids: Tensor
    positions: Tensor
    labels: Tensor
    source: Tensor
    visible: Tensor
    ends: list[int]
    judged: Tensor


def slots_of(lines: Sequence[list[int]], starts: Sequence[int]) -> Slots:
    """Slots of lines whose outputs begin at ``starts``."""
    offsets = torch.tensor([0, *map(len, lines)]).cumsum(0).tolist()
    made: list[tuple[int, int, int]] = []
    ends = []
    for step in range(STEPS):
        for number, line in enumerate(lines):
            first = 0 if step == 0 else starts[number] - 1
            made += [(number, step, base) for base in range(first, len(line) - 2 - step)]
        ends.append(len(made))
    place = {slot: row for row, slot in enumerate(made)}
    visible = torch.zeros(len(made), len(made), dtype=torch.bool)
    for row, (number, step, base) in enumerate(made):
        seen = [(number, 0, other) for other in range(base + 1)]
        seen += [(number, other, base) for other in range(1, step + 1)]
        visible[row, [place[slot] for slot in seen]] = True
    return Slots(
        torch.tensor([lines[n][base + 1 + step] for n, step, base in made]),
        torch.tensor([base + step for _, step, base in made]),
        torch.tensor([lines[n][base + 2 + step] for n, step, base in made]),
        torch.tensor(
            [offsets[n] + b if step == 0 else place[n, step - 1, b] for n, step, b in made]
        ),
        visible,
        ends,
        torch.tensor([base >= starts[n] - 1 for n, _, base in made]),
    )


def unrolled(reference: Any, features: Tensor, slots: Slots) -> Tensor:
    """Logits [R, Vd] of all slots; each step runs everything before it again."""
    hidden = reference.begin(features)[slots.source[: slots.ends[0]]]
    for step, end in enumerate(slots.ends):
        states = reference.states(
            slots.ids[:end], hidden, slots.positions[:end], slots.visible[:end, :end]
        )
        if step + 1 < len(slots.ends):
            recycled = reference.recycle(states, hidden)
            hidden = torch.cat([hidden, recycled[slots.source[end : slots.ends[step + 1]]]])
    return reference.logits(states)


def train(
    reference: Any,
    tensors: dict[str, Tensor],
    features: Sequence[Tensor],
    lines: Sequence[list[int]],
    starts: Sequence[int],
) -> None:
    """Fit ``tensors``, which the reference reads, in place."""
    learned = [tensor.requires_grad_() for tensor in tensors.values() if tensor.is_floating_point()]
    slots = slots_of(lines, starts)
    labels = slots.labels
    if reference.ids is not None:
        labels = torch.searchsorted(reference.ids, labels)
    joined = torch.cat(list(features))
    optimiser = torch.optim.Adam(learned, RATE)
    for _ in range(ROUNDS):
        logits = unrolled(reference, joined, slots)
        loss = functional.cross_entropy(logits[slots.judged], labels[slots.judged])
        if loss.item() < ENOUGH:
            return
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    raise AssertionError(f"the head was not overfitted: cross-entropy {loss.item():.3g}")

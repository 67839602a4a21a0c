"""What a run takes of a device's memory, from shapes alone, and what would fit instead."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2**30

CAPACITY_STEP = 256
"""KV rows per request grow in these steps, so that similar requests share a pool."""


def whole_steps(rows: int) -> int:
    """Rows of a slab that holds so many."""
    return -(-rows // CAPACITY_STEP) * CAPACITY_STEP


@dataclass(frozen=True, slots=True)
class Held:
    """What one model takes.

    Attributes:
        name: for people.
        weights: bytes.
        row: bytes of the keys and values of one token.
    """

    name: str
    weights: float
    row: float


@dataclass(frozen=True, slots=True)
class Need:
    """Memory of a run.

    Attributes:
        held: the target and what drafts for it.
        requests: of a batch, each with a slab of the KV pool.
        least: rows of a slab that the longest question and its answer need.
        answer: tokens of that answer.
        about: rows of a slab of the longest conversation, where answers are as long as they may be.
        spare: slabs of nobody.
        workspace: bytes that kernels take.
        logits: bytes of the logits of one step and what is made of them, about.
    """

    held: tuple[Held, ...]
    requests: int
    least: int
    answer: int
    about: int
    spare: int = 0
    workspace: float = 0.0
    logits: float = 0.0

    @property
    def fixed(self) -> float:
        """Bytes that do not depend on requests."""
        return sum(one.weights for one in self.held) + self.workspace

    @property
    def row(self) -> float:
        """Bytes of one more row of one request, in all models."""
        return sum(one.row for one in self.held)

    @property
    def sure(self) -> float:
        """Bytes without which it cannot run."""
        return self.fixed + self._slabs * self.row * whole_steps(self.least)

    @property
    def likely(self) -> float:
        """Bytes that it is expected to take; activations and the driver's own come on top."""
        return self.fixed + self._slabs * self.row * whole_steps(self.about) + self.logits

    def parts(self) -> list[tuple[str, float]]:
        """What ``sure`` is made of, by name."""
        rows, slabs = whole_steps(self.least), self._slabs
        found = [(f"weights of {one.name}", one.weights) for one in self.held]
        found.append((f"KV of {slabs} x {rows} tokens", slabs * self.row * rows))
        return found + [("workspace", self.workspace)] * (self.workspace > 0)

    def most_requests(self, memory: float, rows: int) -> int:
        """Requests of so many rows that fit; 0 or less where none does."""
        return int((memory - self.fixed) // (self.row * whole_steps(rows))) - self.spare

    def most_rows(self, memory: float) -> int:
        """Rows of each slab that fit, in whole steps; 0 or less where none do."""
        step = self._slabs * self.row * CAPACITY_STEP
        return CAPACITY_STEP * int((memory - self.fixed) // step)

    @property
    def _slabs(self) -> int:
        return self.requests + self.spare

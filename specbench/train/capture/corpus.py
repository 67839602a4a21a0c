"""Captured conversations as training reads them: batches of whole ones, in a given order."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from specbench.decoding.protocols import Tap
from specbench.models.heads.configs import FINAL
from specbench.train.capture.record import CaptureRecord
from specbench.train.capture.shard import tap_name


@dataclass(frozen=True, slots=True)
class Conversation:
    """Where a conversation lies: its shard, its tokens there, and where its answer begins."""

    name: str
    shard: int
    start: int
    end: int
    answer: int

    @property
    def tokens(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Batch:
    """Whole conversations, one after the other. T tokens of all, H hidden size.

    Attributes:
        ids: int64 [T].
        lengths: tokens per conversation.
        answers: place of each answer's first token inside its conversation.
        states: tap -> float32 [T, H].
        lse: float32 [T], see ``capture.shard``.
        best: int64 [T], the target's first choice behind each position.
    """

    ids: Tensor
    lengths: tuple[int, ...]
    answers: tuple[int, ...]
    states: dict[Tap, Tensor]
    lse: Tensor
    best: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same on a device."""
        states = {tap: state.to(device) for tap, state in self.states.items()}
        moved = (self.ids.to(device), self.lse.to(device), self.best.to(device))
        return Batch(moved[0], self.lengths, self.answers, states, moved[1], moved[2])


class Corpus:
    """Reads shards; tensors stay on disk until a batch asks for them.

    Args:
        folder: of the capture.
        record: of the folder.
        taps: which states are read, the final one always.
    """

    def __init__(self, folder: Path, record: CaptureRecord, taps: Sequence[Tap]) -> None:
        self._taps = tuple(dict.fromkeys([FINAL, *taps]))
        self._files = [safe_open(folder / s.file, framework="pt") for s in record.shards]
        self.conversations: list[Conversation] = []
        for number, file in enumerate(self._files):
            names = json.loads(file.metadata()["names"])
            starts, answers = file.get_tensor("starts").tolist(), file.get_tensor("answers")
            for i, name in enumerate(names):
                self.conversations.append(
                    Conversation(name, number, starts[i], starts[i + 1], int(answers[i]))
                )

    def chosen(self, names: Collection[str]) -> list[Conversation]:
        """The conversations with these names, in the order of the names.

        The order of shards says in how many calls they were captured, and which recipes share them.
        """
        found = [one for one in self.conversations if one.name in names]
        return sorted(found, key=lambda one: one.name)

    def load(self, chosen: Sequence[Conversation]) -> Batch:
        """Read some conversations."""
        return Batch(
            self._read("ids", chosen).long(),
            tuple(one.tokens for one in chosen),
            tuple(one.answer for one in chosen),
            {tap: self._read(tap_name(tap), chosen).float() for tap in self._taps},
            self._read("lse", chosen),
            self._read("best", chosen).long(),
        )

    def _read(self, name: str, chosen: Sequence[Conversation]) -> Tensor:
        parts = [self._files[c.shard].get_slice(name)[c.start : c.end] for c in chosen]
        return torch.cat(parts)


def batches(
    conversations: Sequence[Conversation], tokens: int, seed: int, epoch: int
) -> Iterator[list[Conversation]]:
    """The batches of an epoch, in an order that follows from seed and epoch alone.

    Conversations of like length come together, so that no batch has one long and many short ones;
    what is shuffled is which of like length meet, and the order of the batches.

    Args:
        tokens: of a batch, at most; a longer conversation is a batch of its own.
    """
    chance = random.Random(f"{seed}:{epoch}")
    order = sorted(conversations, key=lambda one: one.tokens * (1 + 0.1 * chance.random()))
    made: list[list[Conversation]] = []
    held = 0
    for one in order:
        if not made or held + one.tokens > tokens:
            made.append([])
            held = 0
        made[-1].append(one)
        held += one.tokens
    chance.shuffle(made)
    yield from made

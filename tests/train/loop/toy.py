"""A method that is three numbers and a matrix, and a corpus for it."""

from __future__ import annotations

import random
from pathlib import Path

import torch
from torch import Tensor, nn

from specbench.models.heads.configs import FINAL
from specbench.train.capture.corpus import Batch, Corpus
from specbench.train.capture.record import CaptureRecord, ShardEntry
from specbench.train.capture.shard import write_shard
from specbench.train.loop.ranks import Ranks
from specbench.train.loop.run import Training
from specbench.train.loop.settings import Optimising
from specbench.train.methods.method import DepthFound, Found
from specbench.train.methods.trained import Trained
from tests.train.capture.made import answered

HIDDEN = 3


def write_corpus(folder: Path, count: int = 12) -> Corpus:
    """Conversations of 6 to 16 tokens with random states."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(5)
    lines = [answered(f"q{n}/0", chance.randint(2, 6), chance.randint(4, 10)) for n in range(count)]
    tokens = sum(len(one.prompt) + len(one.answer) for one in lines)
    generator = torch.Generator().manual_seed(6)
    states = torch.randn(tokens, HIDDEN, generator=generator)
    path = folder / "shard.safetensors"
    digest = write_shard(
        path, lines, {FINAL: states}, torch.zeros(tokens), torch.zeros(tokens).long()
    )
    entry = ShardEntry(
        file=path.name, sha256=digest, answers={one.id: "" for one in lines}, tokens=tokens
    )
    record = CaptureRecord(weight_hash="w", dtype="float32", taps=["final"], shards=[entry])
    record.write(folder)
    return Corpus(folder, record, [])


class Toy(Trained):
    """Learns to turn states around; a little noise follows from the batch's number alone.

    ``broken`` names the batches whose loss is no number.
    """

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.module = nn.Linear(HIDDEN, HIDDEN)
        self.frozen = nn.Parameter(torch.ones(1), requires_grad=False)
        self.module.register_parameter("frozen", self.frozen)
        self.broken: set[int] = set()
        self.numbers: list[int] = []

    def loss(self, batch: Batch, step: int) -> Found:
        self.numbers.append(step)
        states = batch.states[FINAL]
        chance = torch.Generator().manual_seed(step)
        noisy = states + 0.1 * torch.randn(states.shape, generator=chance)
        loss = (self.module(noisy) - states.flip(1)).square().mean()
        if step in self.broken:
            loss = loss * float("nan")
        depth = DepthFound(loss.detach(), torch.tensor(step / 100), torch.tensor(0.25))
        return Found(loss, [depth], len(states))

    def export(self, folder: Path) -> None:
        folder.mkdir()


def weights(method: Toy) -> dict[str, Tensor]:
    """A copy of what is trained."""
    return {name: tensor.clone() for name, tensor in method.state().items()}


def training(
    folder: Path, corpus: Corpus, method: Toy, ranks: Ranks | None = None, **how
) -> Training:
    """A training in a folder; ``how`` changes a small default."""
    settings = {"epochs": 4.0, "batch_tokens": 40, "learning_rate": 0.05, "validations": 2}
    return Training(
        method,
        corpus,
        corpus.conversations,
        Optimising(**settings | how),
        folder / "checkpoints",
        folder / "curves.csv",
        ranks or Ranks(),
    )

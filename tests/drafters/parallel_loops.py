"""Drafters with parallel heads in the real loop, each proposal held against its definition."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from specbench.core.trace import ShortDraft
from specbench.decoding.loop import DecodeLoop
from specbench.decoding.protocols import Draft, Drafter, Rule
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.shapes.shape import TreeShape
from specbench.decoding.timing import TickRecorder
from specbench.decoding.tree import PAD
from specbench.drafters.parallel import ParallelDrafter
from specbench.models.heads.configs import FINAL, HeadCheckpoint, MedusaConfig
from specbench.models.heads.medusa import build_parallel_heads
from specbench.models.kv_pool import KVPool
from specbench.models.packed_batch import PackedBatch
from specbench.models.target import PackedTarget
from tests.drafters.build_contexts import loaded_of
from tests.models.families import VOCABULARY, build
from tests.models.heads.medusa_heads import defined
from tests.oracle import Continuation
from tests.planting import Plant
from tests.tables import TableModel, run
from tests.toys import sequence


def drafter_of(
    made: HeadCheckpoint, shape: TreeShape, kind: type[ParallelDrafter] = ParallelDrafter
) -> ParallelDrafter:
    """Heads on the tiny Llama."""
    heads = build_parallel_heads(made, loaded_of(build("llama")), vocabulary=VOCABULARY)
    return kind(heads, shape, VOCABULARY)


class Defined:
    """Holds each proposal against what the committed tokens and the heads' formula say.

    Args:
        inner: the drafter.
        made: its heads.
        shape: its tree.
    """

    def __init__(self, inner: Drafter, made: HeadCheckpoint, shape: TreeShape) -> None:
        self.inner = inner
        self._made = made
        self._shape = shape.cut(made.config.heads)
        target = build("llama")
        self._target, self._lent = target.model, target.lm_head.weight
        self.compared = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """The inner drafter's draft, after the comparison."""
        draft = self.inner.propose(rows, budget)
        chain = self._shape.breadth == 1
        assert draft.tree.chain is (chain or draft.tree.width == 0)
        for b, (row, room) in enumerate(zip(rows, budget, strict=True)):
            shape = self._shape.cut(max(room, 0))
            count = len(shape)
            assert draft.tree.counts[b] == draft.proposed[b] == count
            stopped = shape.depth < max(room, 0)
            assert draft.short[b] is (ShortDraft.DRAFTER_STOPPED if stopped else ShortDraft.NONE)
            assert draft.tree.parents[b, :count].tolist() == list(shape.parents)
            assert (draft.tree.ids[b, count:] == PAD).all()
            nodes = draft.trials.node[b].tolist()
            assert nodes == [*range(count), *[PAD] * (draft.tree.width - count)]
            self._tokens(row, shape, draft.tree.ids[b, :count].tolist())
            self.compared += count > 0
        return draft

    def _tokens(self, row: DecodedSequence, shape: TreeShape, tokens: list[int]) -> None:
        """The node of depth d and rank r: candidate r of head d - 1 at the token before the last.

        By value, so that rounding may exchange candidates that are as good.
        """
        known = torch.tensor([row.tokens[:-1].tolist()])
        state = self._target(input_ids=known, use_cache=False).last_hidden_state[0, -1]
        lines = self._lines(row, defined(self._made, state, self._lent), shape)
        for token, depth, rank in zip(tokens, shape.depths, shape.ranks, strict=True):
            line = lines[depth - 1]
            assert abs(line[token] - line.sort(descending=True).values[rank]) < 1e-4
        for parent in set(shape.parents):
            siblings = [t for t, p in zip(tokens, shape.parents, strict=True) if p == parent]
            assert len(set(siblings)) == len(siblings)

    def _lines(self, row: DecodedSequence, lines: Tensor, shape: TreeShape) -> list[Tensor]:
        """What the heads say, steered as the drafter's own rows are."""
        path: list[int] = []
        found = []
        for line in lines[: shape.depth]:
            if row.steering is not None:
                line = row.steering.row(path, line)
            found.append(line)
            path.append(int(line.argmax()))
        return found


def planting_in(
    shape: TreeShape, continuation: Continuation, seed: int = 0
) -> Callable[[DecodedSequence, int], Plant]:
    """Plants along a path of a shape, its depth uniform in 0 .. budget."""
    chance = random.Random(seed)
    paths = [(), *shape.paths()]

    def steering(row: DecodedSequence, budget: int) -> Plant:
        room = max(budget, 0)
        depth = chance.randint(0, min(room, shape.depth))
        ranks = chance.choice([path for path in paths if len(path) == depth])
        return Plant(continuation(row, room), depth, ranks, by_depth=True)

    return steering


class MarkovTarget(TableModel):
    """A target whose rows depend on the last token alone, which its hidden state names."""

    def forward(self, batch: PackedBatch, taps: Sequence = ()) -> tuple[Tensor, dict]:
        """Logits [M, V], and one-hot hidden states [T, V]."""
        logits, _ = super().forward(batch)
        states = torch.nn.functional.one_hot(batch.ids, logits.shape[1]).float()
        return logits, {FINAL: states}


def markov_heads(law: Tensor, heads: int) -> HeadCheckpoint:
    """Heads that know the law [V, V] of their target: head i gives that of i + 2 tokens on."""
    size = len(law)
    tensors: dict[str, Tensor] = {}
    for head in range(heads):
        tensors[f"heads.{head}.blocks.0.weight"] = torch.zeros(size, size)
        rows = torch.linalg.matrix_power(law, head + 2).log()
        tensors[f"heads.{head}.projection.weight"] = rows.T.contiguous()
    config = MedusaConfig(size, size, size, heads, 1, "own", False)
    return HeadCheckpoint("medusa", "made here", config, tensors)


def decode_markov(
    asked: Sequence[Any], law: Tensor, made: HeadCheckpoint, shape: TreeShape, rule: Rule
) -> list[DecodedSequence]:
    """Decode requests in one batch; target rows [V, V] by last token."""
    lines = law.log().tolist()
    pool = KVPool(len(asked), 64, torch.float32, torch.device("cpu"))
    model = MarkovTarget("target", pool, lambda tokens: lines[tokens[-1]])
    target = PackedTarget(model, torch.device("cpu"))
    lender = loaded_of(build("llama"))
    network = build_parallel_heads(made, lender, vocabulary=len(law))
    drafter = ParallelDrafter(network, shape, len(law))
    loop = DecodeLoop(target, drafter, rule, shape.depth, TickRecorder(lambda: 0))
    rows = [sequence(one, pool) for one in asked]
    run(loop, rows)
    return rows

"""A causal LM that knows the committed tokens: their KV, and the logits behind the last of them.

What is drafted is processed in scratch rows behind them. After a step the accepted nodes that were
processed keep their KV; the refill feeds what is missing (an accepted leaf was never an input, and
neither was the new token) and carries the logits of the last token into the next step, so that the
first drafted token needs no call of its own. Shapes: B requests, V' vocabulary of the draft.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.accepted import Accepted
from specbench.drafters.grow.packed import PackedAdvance
from specbench.drafters.reach import within_context
from specbench.models.packed_batch import Segment, pack
from specbench.models.target import PackedForward


class PrefixModel:
    """Keeps a draft model's KV equal to a prefill of the committed tokens.

    Args:
        model: packed draft; its owner must exist in the pool.
        context: positions the draft knows; behind them it drafts nothing for a request any more.
    """

    def __init__(self, model: PackedForward, context: int) -> None:
        self._model = model
        self._context = context
        self._carried: dict[int, Tensor] = {}
        self._advance: PackedAdvance | None = None

    @property
    def device(self) -> torch.device:
        """Where the draft runs."""
        return self._model.pool.device

    def admit(self, rows: Sequence[DecodedSequence]) -> None:
        """Prefill prompt and first token of each row."""
        fitting = [row for row in rows if row.length <= self._context]
        self._feed(fitting, [0] * len(fitting), [row.tokens.tolist() for row in fitting])

    def begin(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> list[int]:
        """A step begins: the longest path that may be drafted per row, within the context."""
        self._advance = None
        return within_context(rows, budget, self._context, self._carried)

    def first(self, rows: Sequence[DecodedSequence]) -> Tensor:
        """Logits [B, V'] behind the committed tokens; zeros for rows without room."""
        blank = torch.zeros_like(next(iter(self._carried.values())))
        return torch.stack([self._carried.get(row.slab, blank) for row in rows])

    def advance(self, rows: Sequence[DecodedSequence]) -> PackedAdvance:
        """Processes this step's nodes; what it processed is known when the step is observed."""
        self._advance = PackedAdvance(self._model, rows, [row.length for row in rows])
        return self._advance

    def observe(self, rows: Sequence[DecodedSequence], accepted: Sequence[Accepted]) -> None:
        """Keep and feed what is committed next: the accepted tokens and the one behind them.

        Args:
            rows: as in ``advance``.
            accepted: their verdicts; the accepted path may be any drafter's.
        """
        pool, owner = self._model.pool, self._model.owner
        fed, starts, tokens = [], [], []
        for b, (row, one) in enumerate(zip(rows, accepted, strict=True)):
            if row.slab not in self._carried or not one.goes_on(row, self._context):
                self._carried.pop(row.slab, None)
                continue
            known = self._advance.along(b, one.tokens) if self._advance else []
            pool.keep(owner, row.slab, known)
            fed.append(row)
            starts.append(row.length + len(known))
            tokens.append([*one.tokens[len(known) :], one.following])
        self._feed(fed, starts, tokens)

    def release(self, rows: Sequence[DecodedSequence]) -> None:
        """Drop carried logits; the slab itself belongs to the target."""
        for row in rows:
            self._carried.pop(row.slab, None)

    def _feed(
        self,
        rows: Sequence[DecodedSequence],
        starts: Sequence[int],
        tokens: Sequence[Sequence[int]],
    ) -> None:
        """Append tokens to the KV and carry the logits of the last one."""
        if not rows:
            return
        segments = [
            Segment(row.slab, start, len(line))
            for row, start, line in zip(rows, starts, tokens, strict=True)
        ]
        flat = torch.tensor([token for line in tokens for token in line])
        logits, _ = self._model.forward(pack(segments, flat, "last"))
        for row, segment, line in zip(rows, segments, logits, strict=True):
            self._model.pool.set_length(self._model.owner, row.slab, segment.start + segment.count)
            self._carried[row.slab] = line

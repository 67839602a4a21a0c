"""Drafting a chain token by token through a packed causal model, for every model-based drafter.

Shapes: B requests, N drafted tokens of the longest row, V target vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from specbench.decoding.noise import draft_uniforms
from specbench.decoding.rows import BrokenRowsError
from specbench.decoding.sampling import RowContext, draw, penalise, probabilities
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.tree import PAD
from specbench.models.packed_batch import Segment, pack
from specbench.models.target import PackedForward


class ChainSampler:
    """Draws drafts from a model's rows under the request's own sampling settings.

    Args:
        model: the packed draft.
        vocabulary: V of the target; wider draft rows are cut, narrower ones padded with -inf.
        sampled: draw from the processed row (dense law); False takes its argmax (one-hot law).
    """

    def __init__(self, model: PackedForward, vocabulary: int, sampled: bool) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._sampled = sampled

    def draft(
        self,
        rows: Sequence[DecodedSequence],
        budget: Sequence[int],
        starts: Sequence[int],
        logits: Tensor,
    ) -> tuple[Tensor, Tensor | None]:
        """Draft ``budget[b]`` tokens per row.

        Args:
            starts: KV rows of the draft that are valid before the first drafted token.
            logits: [B, V'] draft row for the first token.

        Returns:
            ids int64 [B, N] padded with -1, and law rows [B, N, V], None when one-hot.

        Raises:
            BrokenRowsError: a draft row names no token.
        """
        width = max(budget)
        ids = torch.full((len(rows), width), PAD, dtype=torch.int64, device=logits.device)
        dense = self._sampled and not all(row.request.sampling.greedy for row in rows)
        shape = (len(rows), width, self._vocabulary)
        # Probabilities are float32 whatever the model computes in.
        laws = logits.new_zeros(shape, dtype=torch.float32) if dense else None
        active = [b for b in range(len(rows)) if budget[b] > 0]
        logits = logits[active]
        for node in range(width):
            chosen = [rows[b] for b in active]
            logits = self.fit(logits)
            sound = logits.amax(1).isfinite().tolist()
            if not all(sound):
                broken = [b for b, fine in zip(active, sound, strict=True) if not fine]
                raise BrokenRowsError(broken, "draft")
            logits = _penalised(chosen, logits, ids[active, :node].tolist())
            if laws is None:
                token = logits.argmax(1)
            else:
                law = probabilities(logits, [row.request.sampling for row in chosen])
                token = draw(law, draft_uniforms(chosen, node).to(law.device))
                laws[active, node] = law
            ids[active, node] = token
            going = [b for b in active if budget[b] > node + 1]
            if not going:
                break
            kept = torch.tensor([active.index(b) for b in going], device=token.device)
            segments = [Segment(rows[b].slab, starts[b] + node, 1) for b in going]
            logits, _ = self._model.forward(pack(segments, token[kept], "all"))
            active = going
        return ids, laws

    def fit(self, logits: Tensor) -> Tensor:
        """Rows in the target's vocabulary width."""
        missing = self._vocabulary - logits.shape[1]
        if missing > 0:
            return functional.pad(logits, (0, missing), value=-torch.inf)
        return logits[:, : self._vocabulary]


def _penalised(
    rows: Sequence[DecodedSequence], logits: Tensor, paths: Sequence[Sequence[int]]
) -> Tensor:
    """The target's penalties on the draft's row, with the tokens drafted so far."""
    if not any(row.request.sampling.penalised for row in rows):
        return logits
    contexts = [
        RowContext(row.request.token_ids, [*row.tokens[row.prompt_length :].tolist(), *path])
        for row, path in zip(rows, paths, strict=True)
    ]
    return penalise(logits, [row.request.sampling for row in rows], contexts)

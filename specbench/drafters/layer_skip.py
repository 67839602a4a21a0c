"""Self-speculation by early exit: the target's first E layers, its final norm and its head draft.

Source: Elhoushi et al. 2404.16710 (LayerSkip). The draft aliases the target's KV of those layers:
committed rows are valid from the last verification, and rows written while drafting are scratch
that the verification overwrites with the same values.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specbench.core.trace import ShortDraft
from specbench.decoding.protocols import CHOSEN, SAMPLED, Draft, DrafterInfo
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.build import BuildContext, choice, whole
from specbench.drafters.chain import no_draft
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow.chain import Chain
from specbench.drafters.grow.packed import PackedAdvance
from specbench.drafters.stateless import StatelessDrafter
from specbench.models.packed_batch import Segment, pack
from specbench.models.target import PackedForward

INFO = DrafterInfo(
    name="layer_skip",
    summary="the target's first layers with its norm and head draft (early exit)",
    source="Elhoushi et al. 2024, 2404.16710",
    default=SAMPLED,
    kv="target",
    options={
        "layers": "number of layers E to run, 1 <= E < layers of the target (a third of them)",
        "sampling": "sampled: draw from the processed row; greedy: take the argmax (sampled)",
    },
    variants=(({"sampling": "greedy"}, CHOSEN),),
)


class LayerSkipDrafter(StatelessDrafter):
    """Chain drafts from an early exit of the target.

    Args:
        model: packed early exit whose owner aliases the target's KV.
        vocabulary: V of the target.
        sampled: whether drafts are drawn or taken as argmax.
    """

    info = INFO

    def __init__(self, model: PackedForward, vocabulary: int, sampled: bool = True) -> None:
        self._model = model
        self._chain = Chain(DraftRows(vocabulary), sampled)

    @classmethod
    def build(cls, options: dict[str, object], context: BuildContext) -> LayerSkipDrafter:
        """From an arm's options, see ``INFO``."""
        total = context.target.config.get_text_config().num_hidden_layers
        layers = whole(options, "layers", max(1, total // 3), context.arm)
        sampled = choice(options, "sampling", ("sampled", "greedy"), context.arm) == "sampled"
        return cls(context.early_exit(layers), context.vocabulary, sampled)

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """Feed the last committed token, then draft."""
        room = [max(0, n) for n in budget]
        short = [ShortDraft.NONE if n else ShortDraft.LIMIT for n in room]
        if not any(room):
            return no_draft(short, self._model.pool.device)
        pool, owner = self._model.pool, self._model.owner
        starts = [pool.view(owner, row.slab).length for row in rows]
        segments = [Segment(row.slab, at, 1) for row, at in zip(rows, starts, strict=True)]
        last = torch.tensor([row.tokens[-1] for row in rows])
        logits, _ = self._model.forward(pack(segments, last, "all"))
        advance = PackedAdvance(self._model, rows, [at + 1 for at in starts])
        return self._chain.grow(rows, room, logits, advance, short)

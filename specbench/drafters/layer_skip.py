"""Self-speculation by early exit: the target's first E layers, its final norm and its head draft.

Source: Elhoushi et al. 2404.16710 (LayerSkip). The draft aliases the target's KV of those layers:
committed rows are valid from the last verification, and rows written while drafting are scratch
behind them. The verification overwrites those that it verifies; what a tree processed beyond them
lies behind every valid row, where nothing looks before it is written again.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specbench.core.trace import ShortDraft
from specbench.decoding.protocols import Draft, DrafterInfo
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.build import BuildContext, whole
from specbench.drafters.chain import no_draft
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow.chain import Chain
from specbench.drafters.grow.choose import TREE_OPTIONS, growth_for, tree_facts
from specbench.drafters.grow.growth import Growth
from specbench.drafters.grow.packed import PackedAdvance
from specbench.drafters.stateless import StatelessDrafter
from specbench.models.packed_batch import Segment, pack
from specbench.models.target import PackedForward

DEFAULT, VARIANTS = tree_facts("chain")
INFO = DrafterInfo(
    name="layer_skip",
    summary="the target's first layers with its norm and head draft (early exit)",
    source="Elhoushi et al. 2024, 2404.16710",
    default=DEFAULT,
    kv="target",
    options={
        "layers": "number of layers E to run, 1 <= E < layers of the target (a third of them)",
        **TREE_OPTIONS,
        "tree": f"{TREE_OPTIONS['tree']} (chain)",
    },
    variants=VARIANTS,
)


class LayerSkipDrafter(StatelessDrafter):
    """Drafts from an early exit of the target.

    Args:
        model: packed early exit whose owner aliases the target's KV.
        vocabulary: V of the target.
        sampled: whether chains are drawn or taken as argmax.
        growth: what grows drafts instead of chains.
    """

    info = INFO

    def __init__(
        self,
        model: PackedForward,
        vocabulary: int,
        sampled: bool = True,
        growth: Growth | None = None,
    ) -> None:
        self._model = model
        self._growth = growth or Chain(DraftRows(vocabulary), sampled)

    @classmethod
    def build(cls, options: dict[str, object], context: BuildContext) -> LayerSkipDrafter:
        """From an arm's options, see ``INFO``."""
        total = context.target.config.get_text_config().num_hidden_layers
        layers = whole(options, "layers", max(1, total // 3), context.arm)
        growth = growth_for(options, context.draft_rows(), context.arm, "chain")
        context.note_growth(growth.facts())
        return cls(context.early_exit(layers), context.vocabulary, growth=growth)

    def room(self, k: int) -> int:
        """KV rows of the largest draft."""
        return self._growth.room(k)

    def nodes(self, k: int) -> int:
        """Nodes of the largest draft."""
        return self._growth.nodes(k)

    def feeds(self, k: int) -> int:
        """A level of the draft, or the last committed token."""
        return max(self._growth.level(k), 1)

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """Feed the last committed token, then draft."""
        room = [max(0, n) for n in budget]
        short = [ShortDraft.NONE] * len(rows)
        if not any(room):
            return no_draft(short, self._model.pool.device)
        pool, owner = self._model.pool, self._model.owner
        starts = [pool.view(owner, row.slab).length for row in rows]
        segments = [Segment(row.slab, at, 1) for row, at in zip(rows, starts, strict=True)]
        last = torch.tensor([row.tokens[-1] for row in rows])
        logits, _ = self._model.forward(pack(segments, last, "all"))
        advance = PackedAdvance(self._model, rows, [at + 1 for at in starts])
        return self._growth.grow(rows, room, logits, advance, short)

"""Draft with a smaller causal LM that keeps its own KV.

Sources: Leviathan et al. 2211.17192; Chen et al. 2302.01318. The draft's KV holds every committed
token: after a step its refill feeds the tokens it has not processed (the last accepted draft, which
was never an input, and the new token) and carries the logits of the last one into the next step, so
that the first drafted token needs no call of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from specbench.core.trace import ShortDraft
from specbench.decoding.protocols import CHOSEN, SAMPLED, Acceptance, Draft, DrafterInfo, Tap
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.build import BuildContext, choice
from specbench.drafters.chain import no_draft
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow.chain import Chain
from specbench.drafters.grow.packed import PackedAdvance
from specbench.models.packed_batch import Segment, pack
from specbench.models.target import PackedForward

INFO = DrafterInfo(
    name="draft_model",
    summary="a smaller causal LM with its own KV drafts token by token",
    source="Leviathan et al. 2023, 2211.17192; Chen et al. 2023, 2302.01318",
    default=SAMPLED,
    kv="own",
    needs_model=True,
    options={
        "model": "the draft model: hub id, folder, .gguf file or demo name (required)",
        "revision": "revision of a hub id (none)",
        "dtype": "data type of the draft (that of the target)",
        "sampling": "sampled: draw from the processed row; greedy: take the argmax (sampled)",
    },
    variants=(({"sampling": "greedy"}, CHOSEN),),
)


class DraftModelDrafter:
    """Chain drafts from a separate model.

    Args:
        model: packed draft; its owner must exist in the pool.
        vocabulary: V of the target.
        context: positions the draft knows; behind them a request decodes plainly.
        sampled: whether drafts are drawn or taken as argmax.
    """

    info = INFO
    taps: tuple[Tap, ...] = ()

    def __init__(
        self, model: PackedForward, vocabulary: int, context: int, sampled: bool = True
    ) -> None:
        self._model = model
        self._context = context
        self._chain = Chain(DraftRows(vocabulary), sampled)
        self._carried: dict[int, Tensor] = {}

    @classmethod
    def build(cls, options: dict[str, object], context: BuildContext) -> DraftModelDrafter:
        """From an arm's options, see ``INFO``; loads the draft."""
        sampled = choice(options, "sampling", ("sampled", "greedy"), context.arm) == "sampled"
        model, loaded = context.own_model(options)
        return cls(model, context.vocabulary, loaded.context_limit, sampled)

    def room(self, k: int) -> int:
        """Rows of the largest draft."""
        return self._chain.room(k)

    def admit(self, rows: Sequence[DecodedSequence], taps: Mapping[Tap, Tensor]) -> None:
        """Prefill the draft with prompt and first token."""
        fitting = [row for row in rows if row.length <= self._context]
        self._feed(fitting, [0] * len(fitting), [row.tokens.tolist() for row in fitting])

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """Draft from the carried logits on; nothing beyond the draft's context."""
        room = [
            min(n, self._context - row.length) if row.slab in self._carried else 0
            for row, n in zip(rows, budget, strict=True)
        ]
        room = [max(0, n) for n in room]
        short = [
            ShortDraft.DRAFT_CONTEXT if n < max(0, asked) else ShortDraft.NONE
            for n, asked in zip(room, budget, strict=True)
        ]
        if not any(room):
            return no_draft(short, self._model.pool.device)
        blank = torch.zeros_like(next(iter(self._carried.values())))
        logits = torch.stack([self._carried.get(row.slab, blank) for row in rows])
        advance = PackedAdvance(self._model, rows, [row.length for row in rows])
        return self._chain.grow(rows, room, logits, advance, short)

    def observe(
        self,
        rows: Sequence[DecodedSequence],
        draft: Draft,
        verified: Tensor,
        acceptance: Acceptance,
        taps: Mapping[Tap, Tensor],
    ) -> None:
        """Feed what the draft has not seen: [last accepted, new token], or the new token alone."""
        accepted = acceptance.n_accepted.tolist()
        following = acceptance.next_token.tolist()
        ids = draft.tree.ids.tolist()
        fed, starts, tokens = [], [], []
        for b, row in enumerate(rows):
            drafted = draft.tree.counts[b]
            known = min(accepted[b], max(drafted - 1, 0))
            missing = [*ids[b][known : accepted[b]], following[b]]
            # A request that ends here, or outgrew the draft, needs no further logits.
            ends = row.remaining <= accepted[b] + 1
            beyond = row.length + accepted[b] + 1 > self._context
            if row.slab not in self._carried or ends or beyond:
                self._carried.pop(row.slab, None)
                continue
            fed.append(row)
            starts.append(row.length + known)
            tokens.append(missing)
        self._feed(fed, starts, tokens)

    def _feed(
        self,
        rows: Sequence[DecodedSequence],
        starts: Sequence[int],
        tokens: Sequence[Sequence[int]],
    ) -> None:
        """Append tokens to the draft's KV and carry the logits of the last one."""
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

    def release(self, rows: Sequence[DecodedSequence]) -> None:
        """Drop carried logits; the slab itself belongs to the target."""
        for row in rows:
            self._carried.pop(row.slab, None)

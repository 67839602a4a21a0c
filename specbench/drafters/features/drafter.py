"""Drafting from the target's hidden states: what EAGLE and MTP heads have in common.

Sources: Li et al. 2401.15077, section 4 (EAGLE); DeepSeek-AI 2412.19437, section 2.2 (MTP). Slot t
of a head holds the target's hidden state at position t and the token at t + 1; it predicts the
token at t + 2. A request of n tokens so has n - 1 slots, and the last one predicts what comes next.

A refill gives the head every slot that was committed in a step, with what the target really
computed there. The logits and the hidden state of the last slot are carried into the next step: the
first drafted token needs no call of its own. Slots of drafted tokens hold predicted hidden states;
they are scratch, and the next refill writes over them.

Where nobody waits for the verdict (``decoding.schedule``), a refill of chains feeds all verified
rows, with the accepted tokens put in their places on the device, and is kept once it is known how
many of them count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specbench.core.trace import ShortDraft
from specbench.decoding.outcome import Outcome
from specbench.decoding.protocols import Acceptance, Draft, DrafterInfo, Tap
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.transfer import to_device
from specbench.drafters.accepted import accepted_of
from specbench.drafters.chain import no_draft
from specbench.drafters.features.advance import HeadAdvance
from specbench.drafters.features.splice import spliced
from specbench.drafters.grow.growth import Growth
from specbench.drafters.reach import short_of, within_context
from specbench.models.heads.packed import PackedHead
from specbench.models.packed_batch import Segment, pack


@dataclass(frozen=True, slots=True)
class Slots:
    """New slots of one request.

    Attributes:
        row: the request.
        start: slots before them.
        tokens: the token behind each.
        tapped: packed row of the taps that holds each one's hidden state.
    """

    row: DecodedSequence
    start: int
    tokens: Sequence[int]
    tapped: Sequence[int]


@dataclass(frozen=True, slots=True)
class Carried:
    """What a request's last slot left: logits [V] and the hidden state [H] of the next step."""

    logits: Tensor
    hidden: Tensor


class FeatureDrafter:
    """Drafts with a head that reads hidden states of the target.

    Args:
        head: its owner must exist in the pool.
        growth: chains or trees.
        context: positions the head knows; behind them a request decodes plainly.
    """

    info: DrafterInfo

    def __init__(self, head: PackedHead, growth: Growth, context: int) -> None:
        self.taps: tuple[Tap, ...] = head.taps
        self._head = head
        ids = head.head.target_ids
        self.vocabulary = None if ids is None else frozenset(ids.tolist())
        self._growth = growth
        self._context = context
        self._carried: dict[int, Carried] = {}
        self._ahead: list[Carried] = []

    def room(self, k: int) -> int:
        """KV rows of the largest draft."""
        return self._growth.room(k)

    def nodes(self, k: int) -> int:
        """Nodes of the largest draft."""
        return self._growth.nodes(k)

    def feeds(self, k: int) -> int:
        """A level of the draft, or its refill: a slot per accepted node and one for the root."""
        return max(self._growth.level(k), k + 1)

    def admit(self, rows: Sequence[DecodedSequence], taps: Mapping[Tap, Tensor]) -> None:
        """Fill in the slots of whole prompts.

        Raises:
            ValueError: taps of other rows than these; they would be somebody else's hidden states.
        """
        new, first = [], 0
        for row in rows:
            count = row.length - 1
            if row.finish is None and row.length <= self._context:
                tapped = range(first, first + count)
                new.append(Slots(row, 0, row.tokens[1:].tolist(), tapped))
            first += count
        given = len(taps[self.taps[0]])
        if given != first:
            raise ValueError(f"hidden states of {given} tokens for prompts of {first}")
        self._refill(new, taps)

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """Draft from the carried logits on; nothing beyond the head's context."""
        room = within_context(rows, budget, self._context, self._carried)
        short = short_of(room, budget, ShortDraft.DRAFT_CONTEXT)
        if not any(room):
            return no_draft(short, self._head.pool.device)
        # Rows without budget are not read; any request's will do.
        blank = next(iter(self._carried.values()))
        carried = [self._carried.get(row.slab, blank) for row in rows]
        hidden = torch.stack([one.hidden for one in carried])
        advance = HeadAdvance(self._head, rows, [row.length - 1 for row in rows], hidden)
        first = torch.stack([one.logits for one in carried])
        return self._growth.grow(rows, room, first, advance, short)

    def observe(
        self,
        rows: Sequence[DecodedSequence],
        draft: Draft,
        verified: Tensor,
        acceptance: Acceptance,
        taps: Mapping[Tap, Tensor],
    ) -> None:
        """Fill in the slots of the root and of every accepted node."""
        new = []
        judged = accepted_of(draft, acceptance)
        for row, one, places in zip(rows, judged, verified.tolist(), strict=True):
            if row.slab not in self._carried or not one.goes_on(row, self._context):
                self._carried.pop(row.slab, None)
                continue
            tapped = [places[0], *(places[1 + node] for node in one.nodes)]
            new.append(Slots(row, row.length - 1, [*one.tokens, one.following], tapped))
        self._refill(new, taps)

    def ahead(
        self,
        rows: Sequence[DecodedSequence],
        draft: Draft,
        acceptance: Acceptance,
        taps: Mapping[Tap, Tensor],
    ) -> bool:
        """Fill in the slots of all verified rows of chains; see ``decoding.schedule.RunsAhead``."""
        self._ahead = []
        if not draft.tree.chain or not any(row.slab in self._carried for row in rows):
            return False
        # Requests that are not drafted for any more run along: what they leave is not kept.
        tokens, last = spliced(draft.tree, acceptance, self._head.vocabulary)
        segments = [
            Segment(row.slab, row.length - 1, 1 + count)
            for row, count in zip(rows, draft.tree.counts, strict=True)
        ]
        # Verified rows are packed in the order of their slots: all of them are taken as they lie.
        batch = replace(pack(segments, tokens, "none"), logit_rows=last)
        features = self._head.features(taps, slice(None))
        logits, hidden = self._head.forward(batch, features, fresh=True)
        self._ahead = list(map(Carried, logits.unbind(), hidden[last].unbind()))
        return True

    def catch_up(self, rows: Sequence[DecodedSequence], seen: Outcome) -> None:
        """Keep the slots that were committed; see ``decoding.schedule.RunsAhead``."""
        pool, owner = self._head.pool, self._head.owner
        judged = accepted_of(seen.draft, seen.acceptance)
        for row, one, carried in zip(rows, judged, self._ahead, strict=True):
            if row.slab in self._carried and one.goes_on(row, self._context):
                pool.set_length(owner, row.slab, row.length - 1 + one.committed)
                self._carried[row.slab] = carried
            else:
                self._carried.pop(row.slab, None)

    def _refill(self, new: Sequence[Slots], taps: Mapping[Tap, Tensor]) -> None:
        """Append slots with true hidden states and carry what the last one of each row left."""
        if not new:
            return
        pool, owner = self._head.pool, self._head.owner
        segments = [Segment(one.row.slab, one.start, len(one.tokens)) for one in new]
        tokens = torch.tensor([token for one in new for token in one.tokens])
        tapped = to_device(torch.tensor([row for one in new for row in one.tapped]), pool.device)
        batch = pack(segments, tokens, "last")
        logits, hidden = self._head.forward(batch, self._head.features(taps, tapped), fresh=True)
        last = hidden[to_device(batch.logit_rows, hidden.device)]
        for one, line, state in zip(new, logits, last, strict=True):
            pool.set_length(owner, one.row.slab, one.start + len(one.tokens))
            self._carried[one.row.slab] = Carried(line, state)

    def release(self, rows: Sequence[DecodedSequence]) -> None:
        """Drop what was carried; the slab itself belongs to the target."""
        for row in rows:
            self._carried.pop(row.slab, None)

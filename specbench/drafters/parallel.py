"""Drafting with parallel heads: all tokens of a draft from one hidden state, in one forward.

Sources: Stern et al. 1811.03115, section 3; Cai et al. 2401.10774, section 2.1. After a step the
target's final hidden state at the last verified position of the accepted path is kept (the root's,
where nothing was accepted): it is the state that predicted the newest token. Head i drafts the
tokens at depth i + 1 behind it. What a head says does not depend on the tokens that were drafted
before, so candidates belong to a depth and nodes pick from them by rank. Heads keep no KV and know
no positions: they draft as far as the target decodes.

Shapes: B requests, n of them with a budget, D depths, c candidates, N nodes, H hidden size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

import torch
from torch import Tensor

from specbench.core.trace import ShortDraft
from specbench.decoding.protocols import Acceptance, Draft, DrafterInfo, Tap
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.shapes.shape import TreeShape
from specbench.decoding.transfer import to_device
from specbench.decoding.tree import PAD, ROOT, TokenTree, TrialKind
from specbench.drafters.build import BuildContext
from specbench.drafters.chain import chain_draft, no_draft
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.grow.candidates import best_tokens
from specbench.drafters.reach import short_of
from specbench.drafters.tree import tree_draft
from specbench.models.heads.medusa import ParallelHeads, build_parallel_heads
from specbench.models.quant.apply import quantise_head
from specbench.models.quant.settings import QUANT_OPTIONS, quant_of

OPTIONS = {
    "model": "folder, hub id or zoo:NAME of the heads, or untrained (required)",
    "revision": "revision of a hub id (none)",
    "dtype": "data type of the heads (that of the target)",
    **QUANT_OPTIONS,
}
"""Options of all drafters with parallel heads."""


def own_heads(options: dict[str, object], context: BuildContext, depth: int) -> ParallelHeads:
    """The heads that an arm names; what was loaded is noted for records.

    Args:
        options: the arm's, see ``OPTIONS``.
        context: the arm's.
        depth: of the tree that is asked for; one that is deeper than there are heads is cut, which
            the records say.

    Raises:
        UsageError: a checkpoint of another family.
        PrerequisiteError: no such checkpoint, or one that does not fit the target.
    """
    checkpoint = context.checkpoint(options, ("medusa",))
    quant = quant_of(options, f"arm {context.arm}")
    heads = build_parallel_heads(
        checkpoint,
        context.target,
        vocabulary=context.vocabulary,
        padding=context.target_model.padding,
        prepack=context.prepack and not quant.on,
    )
    quantise_head(heads, quant, checkpoint.name, context.target.model, prepack=context.prepack)
    if depth > heads.count:
        told = f"the tree has depth {depth}; with {heads.count} heads it is cut to {heads.count}"
        checkpoint = replace(checkpoint, oddities=(*checkpoint.oddities, told))
    context.note(checkpoint, heads.weight_bytes, 0, quant.label)
    return heads


def line(count: int) -> TreeShape:
    """The shape of a chain of first choices."""
    return TreeShape.from_paths([0] * depth for depth in range(1, count + 1))


class ParallelDrafter:
    """Chains or static trees of the heads' best tokens.

    Args:
        heads: what drafts.
        shape: the node of depth d and rank r takes candidate r of head d - 1; what lies deeper
            than there are heads is left out.
        vocabulary: V of the target.
    """

    info: DrafterInfo

    def __init__(self, heads: ParallelHeads, shape: TreeShape, vocabulary: int) -> None:
        self.taps: tuple[Tap, ...] = heads.taps
        ids = heads.target_ids
        self.vocabulary = None if ids is None else frozenset(ids.tolist())
        self._heads = heads
        self._shape = shape.cut(heads.count)
        self._sizes = [len(shape.cut(depth)) for depth in range(self._shape.depth + 1)]
        self._rows_of = DraftRows(vocabulary)
        self._hidden: dict[int, Tensor] = {}

    @classmethod
    def noted(cls, heads: ParallelHeads, shape: TreeShape, context: BuildContext) -> Self:
        """The drafter of an arm; the shape that it drafts is noted for records."""
        kept = shape.cut(heads.count)
        kind = "chain" if kept.breadth == 1 else "static"
        context.note_growth({"kind": kind, "sampling": "greedy", **kept.facts()})
        return cls(heads, kept, context.vocabulary)

    def room(self, k: int) -> int:
        """Nodes of the shape down to depth ``k``."""
        return self._sizes[min(max(k, 0), self._shape.depth)]

    def nodes(self, k: int) -> int:
        """The same: what is drafted is verified."""
        return self.room(k)

    def feeds(self, k: int) -> int:
        """None: the heads have no KV."""
        return 0

    def admit(self, rows: Sequence[DecodedSequence], taps: Mapping[Tap, Tensor]) -> None:
        """Keep the hidden state that predicted each row's last token.

        Raises:
            ValueError: taps of other rows than these; they would be somebody else's.
        """
        states = taps[self.taps[0]]
        ends = torch.tensor([row.length - 1 for row in rows]).cumsum(0)
        if len(states) != int(ends[-1]):
            raise ValueError(f"hidden states of {len(states)} tokens for prompts of {ends[-1]}")
        self._keep(rows, states[(ends - 1).to(states.device)])

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """The shape down to ``budget[b]``, as far as there are heads.

        Raises:
            BrokenRowsError: a row of a head names no token.
        """
        depth = [max(0, min(n, self._shape.depth)) for n in budget]
        short = short_of(depth, budget, ShortDraft.DRAFTER_STOPPED)
        active = [b for b, n in enumerate(depth) if n]
        if not active:
            return no_draft(short, self._hidden[rows[0].slab].device)
        hidden = torch.stack([self._hidden[rows[b].slab] for b in active])
        table = self._heads(hidden, max(depth))
        return self._draft(depth, self._candidates(rows, active, depth, table), short)

    def _candidates(
        self,
        rows: Sequence[DecodedSequence],
        active: Sequence[int],
        depth: Sequence[int],
        table: Tensor,
    ) -> Tensor:
        """Best tokens int64 [B, D, c] by depth from rows [n, D, V']; ``PAD`` where there are none.

        Penalties see the best tokens of the depths before, as if they were the path to every node.
        """
        levels = max(depth)
        size = (len(rows), levels, self._shape.breadth)
        found = torch.full(size, PAD, dtype=torch.int64, device=table.device)
        for level in range(levels):
            first, last = self._sizes[level], self._sizes[level + 1]
            count = 1 + max(self._shape.ranks[first:last])
            going = [i for i, b in enumerate(active) if depth[b] > level]
            owners = [active[i] for i in going]
            paths = found[owners, :level, 0].tolist()
            ready = self._rows_of.ready(rows, owners, paths, table[going, level])
            found[owners, level, :count] = best_tokens(ready, count)
        return found

    def _draft(
        self, depth: Sequence[int], candidates: Tensor, short: Sequence[ShortDraft]
    ) -> Draft:
        """Nodes filled with the candidates of their depth and rank."""
        shape, device = self._shape, candidates.device
        counts = tuple(self._sizes[n] for n in depth)
        width = max(counts)
        level = torch.tensor(shape.depths[:width], device=device) - 1
        rank = torch.tensor(shape.ranks[:width], device=device)
        real = torch.arange(width, device=device) < torch.tensor(counts, device=device)[:, None]
        ids = torch.where(real, candidates[:, level, rank], PAD)
        if shape.breadth == 1:
            return chain_draft(ids, counts, None, short)
        parents = torch.where(real, torch.tensor(shape.parents[:width], device=device), ROOT)
        tree = TokenTree(ids, parents, counts, False)
        return tree_draft(tree, None, None, TrialKind.DETERMINISTIC_SET, short, counts)

    def observe(
        self,
        rows: Sequence[DecodedSequence],
        draft: Draft,
        verified: Tensor,
        acceptance: Acceptance,
        taps: Mapping[Tap, Tensor],
    ) -> None:
        """Keep the hidden state of the last accepted node, or of the root."""
        accepted = acceptance.n_accepted
        last = acceptance.path.gather(1, (accepted - 1).clamp(min=0)[:, None])
        position = torch.where(accepted[:, None] > 0, last + 1, 0)
        states, at = taps[self.taps[0]], verified.gather(1, position).squeeze(1)
        self._keep(rows, states[to_device(at, states.device)])

    def _keep(self, rows: Sequence[DecodedSequence], states: Tensor) -> None:
        for row, state in zip(rows, states, strict=True):
            self._hidden[row.slab] = state

    def release(self, rows: Sequence[DecodedSequence]) -> None:
        """Forget requests that ended."""
        for row in rows:
            self._hidden.pop(row.slab, None)

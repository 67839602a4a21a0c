"""Growing a chain: one token after the other, drawn or taken as argmax.

Shapes: B requests, N drafted tokens of the longest row, V target vocabulary, V' of the draft.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.core.trace import ShortDraft
from specbench.decoding.noise import draft_uniforms
from specbench.decoding.protocols import Draft
from specbench.decoding.sampling import draw
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.transfer import places, to_device
from specbench.decoding.tree import PAD
from specbench.drafters.chain import chain_draft
from specbench.drafters.draft_rows import DraftRows, reads_paths
from specbench.drafters.grow.advance import Advance, Frontier
from specbench.drafters.grow.candidates import sampling_name


class Chain:
    """Grows chains.

    Args:
        rows_of: makes the draft's logits ready.
        sampled: draw from the processed row (dense law); False takes its argmax (one-hot law).
        lane: of ``lanes`` chains that are drawn side by side in a step, this one; each draws with
            numbers of its own.
    """

    def __init__(self, rows_of: DraftRows, sampled: bool, lane: int = 0, lanes: int = 1) -> None:
        self._rows_of = rows_of
        self._sampled = sampled
        self._lane = lane
        self._lanes = lanes

    def room(self, k: int) -> int:
        """KV rows of the largest draft."""
        return k

    def nodes(self, k: int) -> int:
        """The nodes of a chain."""
        return k

    def level(self, k: int) -> int:
        """One node after the other; the last is not processed."""
        return int(k > 1)

    def facts(self) -> dict[str, object]:
        """Kind and sampling."""
        return {"kind": "chain", "sampling": sampling_name(self._sampled)}

    def grow(
        self,
        rows: Sequence[DecodedSequence],
        budget: Sequence[int],
        first: Tensor,
        advance: Advance,
        short: Sequence[ShortDraft],
    ) -> Draft:
        """Draft ``budget[b]`` tokens per row.

        Args:
            rows: the batch; at least one budget is above 0.
            budget: longest path per request.
            first: [B, V'] draft row behind the committed tokens; rows without budget are not read.
            advance: processes drafted nodes.
            short: per request, why it drafts fewer than asked.

        Raises:
            BrokenRowsError: a draft row names no token.
        """
        width = max(budget)
        ids = torch.full((len(rows), width), PAD, dtype=torch.int64, device=first.device)
        dense = self._sampled and not all(row.request.sampling.greedy for row in rows)
        # Probabilities are float32 whatever the model computes in.
        shape = (len(rows), width, self._rows_of.vocabulary)
        laws = first.new_zeros(shape, dtype=torch.float32) if dense else None
        sound = first.new_ones(len(rows), dtype=torch.bool) if self._rows_of.deferred else None
        active = [b for b in range(len(rows)) if budget[b] > 0]
        at = places(active, len(rows), first.device)
        logits = first[at]
        for node in range(width):
            # Tokens are read back only where somebody asks for them.
            asked = node > 0 and reads_paths(rows, active)
            paths = ids[at, :node].tolist() if asked else [[] for _ in active]
            told: list[Tensor] | None = None if sound is None else []
            logits = self._rows_of.ready(rows, active, paths, logits, told)
            if sound is not None and told:
                sound[at] &= told[0]
            if laws is None:
                token = logits.argmax(1)
            else:
                law = self._rows_of.laws(rows, active, logits)
                number = node * self._lanes + self._lane
                numbers = draft_uniforms([rows[b] for b in active], number)
                # A row of NaN is drawn from as well, and its request fails: the id must be one.
                token = draw(law, to_device(numbers, law.device)).clamp_(max=law.shape[1] - 1)
                laws[at, node] = law
            token = _steered(rows, active, paths, token)
            ids[at, node] = token
            going = [b for b in active if budget[b] > node + 1]
            if not going:
                break
            kept = places([active.index(b) for b in going], len(active), token.device)
            logits = advance(Frontier(going, token[kept], [node - 1] * len(going), node + 1))
            active, at = going, places(going, len(rows), token.device)
        return chain_draft(ids, tuple(budget), laws, short, sound)


def _steered(
    rows: Sequence[DecodedSequence],
    active: Sequence[int],
    paths: Sequence[Sequence[int]],
    token: Tensor,
) -> Tensor:
    """The tokens, or those that somebody wants in their place."""
    for place, (b, path) in enumerate(zip(active, paths, strict=True)):
        steering = rows[b].steering
        wanted = steering.token(path) if steering else None
        if wanted is not None:
            token[place] = wanted
    return token

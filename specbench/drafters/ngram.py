"""Prompt lookup: propose what followed the last n tokens earlier in the request.

Sources: Saxena 2023 (prompt lookup decoding); transformers' ``prompt_lookup_num_tokens`` and vLLM's
n-gram proposer, which take the earliest of several occurrences.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from specbench.decoding.protocols import CHOSEN, Draft, DrafterInfo
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.build import BuildContext, choice, whole
from specbench.drafters.chain import one_hot_draft
from specbench.drafters.reach import looked_up
from specbench.drafters.stateless import StatelessDrafter
from specbench.errors import UsageError

INFO = DrafterInfo(
    name="ngram",
    summary="prompt lookup: what followed the longest matching suffix earlier in the request",
    source="Saxena 2023, prompt lookup decoding",
    default=CHOSEN,
    options={
        "min_n": "shortest suffix looked up, in tokens (1)",
        "max_n": "longest suffix looked up, in tokens (3)",
        "occurrence": "occurrence to continue: first, or last that has a whole draft (last)",
    },
)


class NgramDrafter(StatelessDrafter):
    """Looks up the longest suffix of between ``min_n`` and ``max_n`` tokens."""

    info = INFO

    def __init__(
        self,
        min_n: int = 1,
        max_n: int = 3,
        occurrence: str = "last",
        device: torch.device | None = None,
    ) -> None:
        if not 1 <= min_n <= max_n:
            raise UsageError(
                f"ngram: min_n={min_n}, max_n={max_n}", "use 1 <= min_n <= max_n, e.g. 1 and 3"
            )
        if occurrence not in ("first", "last"):
            raise UsageError(f"ngram: occurrence={occurrence!r}", "use 'first' or 'last'")
        self._device = device or torch.device("cpu")
        self._min_n = min_n
        self._max_n = max_n
        self._last = occurrence == "last"

    @classmethod
    def build(cls, options: dict[str, object], context: BuildContext) -> NgramDrafter:
        """From an arm's options, see ``INFO``."""
        return cls(
            whole(options, "min_n", 1, context.arm),
            whole(options, "max_n", 3, context.arm),
            choice(options, "occurrence", ("last", "first"), context.arm),
            context.target.device,
        )

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """At most ``budget[b]`` tokens that followed the matched suffix; none without a match."""
        tokens = [
            self.lookup(row.tokens, room) if room > 0 else []
            for row, room in zip(rows, budget, strict=True)
        ]
        short = looked_up([len(line) for line in tokens], budget)
        return one_hot_draft(tokens, short, self._device)

    def lookup(self, tokens: npt.NDArray[np.int64], room: int) -> list[int]:
        """The continuation of the longest suffix that occurs earlier, at most ``room`` tokens."""
        length = len(tokens)
        # Start from places of the last token and extend backwards: one pass over the context.
        ends = np.flatnonzero(tokens[:-1] == tokens[-1])
        best: npt.NDArray[np.int64] | None = None
        for n in range(1, min(self._max_n, length - 1) + 1):
            if n > 1:
                ends = ends[ends >= n - 1]
                ends = ends[tokens[ends - (n - 1)] == tokens[length - n]]
            if not len(ends):
                break
            if n >= self._min_n:
                best = ends
        if best is None:
            return []
        start = int(best[0]) + 1
        if self._last:
            # The latest occurrence that has a whole draft behind it: in a loop the very last one
            # overlaps the suffix and would be continued by a single token.
            whole = best[best < length - room]
            start = int(whole[-1] if len(whole) else best[0]) + 1
        return tokens[start : start + room].tolist()

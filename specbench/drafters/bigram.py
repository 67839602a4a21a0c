"""A table of bigrams: draft what most often followed the last token, again and again.

It knows one token of context and costs nothing, which makes it the honest floor beside a trained
head: what a head accepts beyond it, it learnt. Source: Leviathan et al. 2211.17192, section 3.6,
where bigrams are the approximation model of negligible cost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from specbench.decoding.protocols import CHOSEN, Draft, DrafterInfo
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.drafters.build import BuildContext, LoadedDraft
from specbench.drafters.chain import one_hot_draft
from specbench.drafters.reach import looked_up
from specbench.drafters.stateless import StatelessDrafter
from specbench.models.bigram import read_table
from specbench.models.locate import locate

INFO = DrafterInfo(
    name="bigram",
    summary="a table of bigrams: what most often followed the last token, again and again",
    source="Leviathan et al. 2023, 2211.17192, section 3.6",
    default=CHOSEN,
    needs_model=True,
    options={
        "model": "the table: folder, its bigram.safetensors, hub id or zoo:NAME (required)",
        "revision": "revision of a hub id (none)",
    },
)


class BigramDrafter(StatelessDrafter):
    """Follows a table from the last token on.

    Args:
        following: int32 [V], the token behind each token, -1 for none.
        device: of the drafts.
    """

    info = INFO

    def __init__(self, following: npt.NDArray[np.int32], device: torch.device | None = None):
        self._following = following
        self._device = device or torch.device("cpu")
        self.vocabulary = frozenset(following[following >= 0].tolist())

    @classmethod
    def build(cls, options: dict[str, object], context: BuildContext) -> BigramDrafter:
        """From an arm's options, see ``INFO``; reads the table and notes it for records.

        Raises:
            UsageError: a folder without a table.
            PrerequisiteError: no such table, a damaged one, or one of another vocabulary.
        """
        revision = options.get("revision")
        location = locate(str(options.get("model")), revision=str(revision) if revision else None)
        table = read_table(location, context.vocabulary)
        facts = {**table.facts(), "oddities": context.odd(table.made_for)}
        context.loaded.append(LoadedDraft(facts, table.following.nbytes, 0))
        return cls(table.following, context.target.device)

    def propose(self, rows: Sequence[DecodedSequence], budget: Sequence[int]) -> Draft:
        """At most ``budget[b]`` tokens; the chain ends at a token that nothing followed."""
        tokens = [
            self.chain(int(row.tokens[-1]), room) for row, room in zip(rows, budget, strict=True)
        ]
        short = looked_up([len(line) for line in tokens], budget)
        return one_hot_draft(tokens, short, self._device)

    def chain(self, token: int, room: int) -> list[int]:
        """What follows a token, at most ``room`` tokens."""
        found: list[int] = []
        while len(found) < room and (token := int(self._following[token])) >= 0:
            found.append(token)
        return found

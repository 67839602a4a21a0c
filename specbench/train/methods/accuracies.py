"""How often the candidates of parallel heads are right, which is what trees are searched by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor

from specbench.train.capture.corpus import Batch
from specbench.train.methods.vocabulary import DraftVocabulary

RANKS = 10
"""Candidates per head that a tree is searched among, as in Medusa's own search."""


class Ranked(Protocol):
    """Parallel heads in training, whose candidates can be counted."""

    vocabulary: DraftVocabulary

    def rows(self, batch: Batch) -> Tensor:
        """int64 [M] packed places whose rows are judged."""
        ...

    def logits(self, batch: Batch, rows: Tensor) -> list[Tensor]:
        """Logits [M, Vd] of every head for these rows."""
        ...


@torch.no_grad()
def rank_accuracies(method: Ranked, batches: Iterable[Batch]) -> list[list[float]]:
    """By head and rank, how often the head's token of this rank is the one that came next.

    What a search of trees reads (``decoding.shapes``, ``best_first:N:FILE``) and Medusa's
    evaluation logs (2401.10774, section 2.3.3). A token that heads cannot say counts as missed.

    Args:
        method: heads in training.
        batches: conversations; those that were not trained on tell more.

    Returns:
        ``RANKS`` shares per head, fewer where heads have fewer tokens; nothing without judged rows.
    """
    vocabulary = method.vocabulary
    ranks = min(RANKS, len(vocabulary.projection))
    hits: list[Tensor] = []
    seen = 0
    for batch in batches:
        rows = method.rows(batch)
        if not len(rows):
            continue
        token = vocabulary.rows[batch.ids[rows + 1]]
        found = [
            (vocabulary.drafted(logits).topk(ranks, 1).indices == token[:, None]).sum(0).cpu()
            for logits in method.logits(batch, rows)
        ]
        hits = [old + new for old, new in zip(hits, found, strict=True)] if hits else found
        seen += len(rows)
    return [(one.double() / seen).tolist() for one in hits]

"""Drafts that are chains, built one way for all drafters."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.core.trace import ShortDraft
from specbench.decoding.laws import DenseLaws, OneHotLaws
from specbench.decoding.protocols import Draft
from specbench.decoding.transfer import to_device
from specbench.decoding.tree import PAD, TrialKind, chain, chain_trials


def one_hot_draft(
    tokens: Sequence[Sequence[int]], short: Sequence[ShortDraft], device: torch.device
) -> Draft:
    """Tokens found on the host without chance, one list per request."""
    width = max(map(len, tokens), default=0)
    ids = torch.full((len(tokens), width), PAD, dtype=torch.int64)
    for row, line in enumerate(tokens):
        ids[row, : len(line)] = torch.tensor(line, dtype=torch.int64)
    return chain_draft(to_device(ids, device), tuple(map(len, tokens)), None, short)


def chain_draft(
    ids: Tensor,
    counts: tuple[int, ...],
    laws: Tensor | None,
    short: Sequence[ShortDraft],
    sound: Tensor | None = None,
) -> Draft:
    """A chain of ids int64 [B, N] with law rows [B, N, V], or None for one-hot laws.

    ``sound`` as in ``Draft``.
    """
    tree = chain(ids, counts)
    kind = TrialKind.ONE_HOT if laws is None else TrialKind.IID
    return Draft(
        tree,
        chain_trials(tree, kind),
        OneHotLaws() if laws is None else DenseLaws(laws),
        tuple(short),
        counts,
        sound,
    )


def no_draft(short: Sequence[ShortDraft], device: torch.device) -> Draft:
    """Nothing drafted for any request, with the reasons."""
    return one_hot_draft([[]] * len(short), short, device)

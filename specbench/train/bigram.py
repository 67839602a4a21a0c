"""Counts a bigram table from texts of the target, and writes it for the drafter ``bigram``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file
from torch import Tensor

from specbench.errors import UsageError
from specbench.models.heads.table import BIGRAM, NEXT, TABLE_FILE


def count_bigrams(sequences: Iterable[tuple[Sequence[int], int]], vocabulary: int) -> Tensor:
    """What most often follows each token in answers; the maximum-likelihood first choice.

    Args:
        sequences: ids of prompt and answer, and the index of the first answer token. A pair counts
            where its second token is one of the answer: nothing is learnt of what people wrote.
        vocabulary: V, rows of the target's logits.

    Returns:
        int32 [V]; -1 behind a token that nothing followed. Of successors that are as frequent the
        lowest id is taken.

    Raises:
        UsageError: an id outside of the vocabulary.
    """
    found = [_pairs(np.asarray(ids, dtype=np.int64), start) for ids, start in sequences]
    pairs = np.concatenate([np.empty((2, 0), dtype=np.int64), *found], axis=1)
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < vocabulary:
        raise UsageError(
            f"the texts have ids {pairs.min()} to {pairs.max()}, the target 0 to {vocabulary - 1}",
            "count texts that this target wrote",
        )
    keys, counts = np.unique(pairs[0] * vocabulary + pairs[1], return_counts=True)
    tokens, successors = np.divmod(keys, vocabulary)
    # The most frequent successor of a token comes first, of equals the lowest id.
    order = np.lexsort((successors, -counts, tokens))
    known, first = np.unique(tokens[order], return_index=True)
    table = np.full(vocabulary, -1, dtype=np.int32)
    table[known] = successors[order][first]
    return torch.from_numpy(table)


def _pairs(ids: npt.NDArray[np.int64], start: int) -> npt.NDArray[np.int64]:
    """Neighbours int64 [2, n] whose second token stands at ``start`` or behind it."""
    second = max(start, 1)
    return np.stack([ids[second - 1 : -1], ids[second:]])


def write_bigram(folder: Path, table: Tensor, facts: Mapping[str, object]) -> Path:
    """Write a table as ``models.heads.table`` describes it.

    Args:
        folder: made where it is not; it must hold no ``config.json`` yet.
        table: int32 [V], from ``count_bigrams``.
        facts: ``tokens`` that were counted, name of the ``target`` and its ``weight_hash``; further
            ones are kept as they are.

    Returns:
        The folder.

    Raises:
        UsageError: a folder in use.
    """
    if (folder / "config.json").exists():
        raise UsageError(f"{folder} already holds a checkpoint", "name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    save_file({NEXT: table.contiguous()}, folder / TABLE_FILE, metadata={"format": "pt"})
    config = {"model_type": BIGRAM, "vocabulary": len(table), **facts}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    return folder

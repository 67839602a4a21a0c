"""Which tokens a new head with a smaller vocabulary drafts, before anybody counted any."""

from __future__ import annotations

from pathlib import Path

from specbench.models.folder import read_json


def first_ids(folder: Path, count: int, vocabulary: int) -> list[int]:
    """``count`` ids of a target, sorted: added tokens, then the lowest ids.

    The merges of a byte-pair vocabulary are numbered by frequency, so low ids are frequent tokens.

    Args:
        folder: the target's, with ``tokenizer.json`` where there is one.
        count: at most ``vocabulary``.
        vocabulary: rows of the target's embedding.
    """
    added = read_json(folder / "tokenizer.json").get("added_tokens") or ()
    special = sorted({int(token["id"]) for token in added})
    kept = [i for i in special if i < vocabulary][:count]
    others = (i for i in range(vocabulary) if i not in set(kept))
    return sorted([*kept, *(i for i, _ in zip(others, range(count - len(kept)), strict=False))])

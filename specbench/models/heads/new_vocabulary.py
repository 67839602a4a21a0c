"""Which tokens a new head with a smaller vocabulary drafts, before anybody counted any."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from specbench.errors import UsageError
from specbench.models.folder import read_json


def drafted_ids(
    draft_ids: Sequence[int] | None, count: int | None, folder: Path, vocabulary: int
) -> list[int] | None:
    """Target ids that a new head drafts, rising; None for all of them, which needs no map.

    Args:
        draft_ids: exactly these, in any order.
        count: so many of ``first_ids``.
        folder: the target's.
        vocabulary: V.

    Raises:
        UsageError: both are given, or ids or a number of them that the target does not have.
    """
    if draft_ids is not None and count is not None:
        raise UsageError(
            f"a draft vocabulary of {count} tokens and one of {len(draft_ids)} named ones",
            "give their number or their ids",
        )
    if count is not None:
        if not 1 <= count <= vocabulary:
            raise UsageError(
                f"a draft vocabulary of {count} tokens, the target has {vocabulary}",
                f"use 1 to {vocabulary}",
            )
        draft_ids = first_ids(folder, count, vocabulary)
    if draft_ids is None:
        return None
    ids = sorted(map(int, draft_ids))
    if not ids or ids[0] < 0 or ids[-1] >= vocabulary:
        said = f"from {ids[0]} to {ids[-1]}" if ids else "of no tokens"
        raise UsageError(
            f"a draft vocabulary {said}, the target has {vocabulary} tokens",
            f"use ids from 0 to {vocabulary - 1}",
        )
    if twice := [one for one, other in pairwise(ids) if one == other]:
        raise UsageError(f"a draft vocabulary with token {twice[0]} twice", "name every token once")
    return ids if len(ids) < vocabulary else None


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

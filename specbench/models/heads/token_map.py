"""Which token of the target every row of a smaller draft vocabulary is (case E2)."""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.errors import PrerequisiteError

_HINT = "get the map from the head's authors; a guess would draft wrong tokens"


def from_offsets(
    offsets: Tensor, membership: Tensor | None, vocabulary: int, where: str
) -> tuple[Tensor, str]:
    """Target ids int64 [Vd] of a ``d2t`` map, and the note where it is unusual.

    ``d2t[i]`` is an offset: draft row i is token i + d2t[i]. Some files hold the ids themselves;
    they are told by ids that fit where offsets do not.

    Args:
        offsets: the stored map [Vd].
        membership: the stored mask [V] of drafted tokens, where there is one.
        vocabulary: V.
        where: for messages.

    Raises:
        PrerequisiteError: neither reading gives increasing ids in range that agree with the mask.
    """
    stored = offsets.long()
    ids = stored + torch.arange(len(stored))
    problem = _problem(ids, membership, vocabulary)
    if problem is None:
        plain = len(ids) < vocabulary and not bool(stored.any())
        return ids, "its draft vocabulary is the target's first ids" if plain else ""
    if _problem(stored, membership, vocabulary) is None:
        return stored, "d2t holds token ids, not offsets; read as ids"
    raise PrerequisiteError(f"{where}: the map d2t {problem}", _HINT)


def from_ids(ids: Tensor, vocabulary: int, where: str) -> Tensor:
    """Target ids int64 of a map that holds them. PrerequisiteError: out of range, or one twice."""
    ids = ids.long()
    if len(ids) == 0 or int(ids.min()) < 0 or int(ids.max()) >= vocabulary:
        raise PrerequisiteError(
            f"{where}: the token map leads out of the target's {vocabulary} tokens", _HINT
        )
    if len(ids.unique()) != len(ids):
        raise PrerequisiteError(f"{where}: the token map names a token twice", _HINT)
    return ids


def _problem(ids: Tensor, membership: Tensor | None, vocabulary: int) -> str | None:
    """What is wrong with target ids; None if nothing."""
    if len(ids) == 0 or int(ids.min()) < 0 or int(ids.max()) >= vocabulary:
        worst = int(ids.max()) if len(ids) else 0
        return f"leads to token {worst} of {vocabulary}"
    if bool((ids.diff() <= 0).any()):
        return "does not lead to increasing tokens"
    if membership is None:
        return None
    mask = membership.bool()
    if len(mask) != vocabulary or int(mask.sum()) != len(ids) or not bool(mask[ids].all()):
        return f"contradicts the mask t2d, which marks {int(mask.sum())} tokens for {len(ids)} rows"
    return None

"""Which token of the target every row of a smaller draft vocabulary is (case E2)."""

from __future__ import annotations

from math import exp, lgamma

import torch
from torch import Tensor

from specbench.errors import PrerequisiteError

_HINT = "get the map from the head's authors; a guess would draft wrong tokens"
_UNLIKELY = 0.05
"""Chance of a vocabulary without neighbours below which a map is not taken for offsets."""


def from_offsets(
    offsets: Tensor, membership: Tensor | None, vocabulary: int, where: str
) -> tuple[Tensor, str]:
    """Target ids int64 [Vd] of a ``d2t`` map, and the note where it is unusual.

    ``d2t[i]`` is an offset: draft row i is token i + d2t[i], so offsets never fall. Some files hold
    the ids themselves. The mask decides where there is one. Without it, values that only one
    reading fits are that one. Where both fit, offsets that rise at every row leave out the
    neighbour of every drafted token: a few rows of a format that defines offsets may do so by
    chance, a vocabulary of counted tokens does not.

    Args:
        offsets: the stored map [Vd].
        membership: the stored mask [V] of drafted tokens, where there is one.
        vocabulary: V.
        where: for messages.

    Raises:
        PrerequisiteError: neither reading gives increasing ids in range that agree with the mask,
            or nothing decides between the two.
    """
    stored = offsets.long()
    ids = stored + torch.arange(len(stored))
    problem = _problem(ids, membership, vocabulary)
    fits_as_ids = _problem(stored, membership, vocabulary) is None
    if problem is not None:
        if fits_as_ids:
            return stored, "d2t holds token ids, not offsets; read as ids"
        raise PrerequisiteError(f"{where}: the map d2t {problem}", _HINT)
    if fits_as_ids and not torch.equal(ids, stored):
        return ids, _either(ids, stored, vocabulary, where)
    plain = len(ids) < vocabulary and not bool(stored.any())
    return ids, "its draft vocabulary is the target's first ids" if plain else ""


def _either(ids: Tensor, stored: Tensor, vocabulary: int, where: str) -> str:
    """The note on a map that is taken for offsets, though it fits as ids too.

    Raises:
        PrerequisiteError: as offsets it would leave out every neighbour of a drafted token, which
            so many rows do not do by chance.
    """
    readings = (
        f"the map d2t fits as offsets (last row: token {int(ids[-1])}) and as token ids (last row: "
        f"token {int(stored[-1])}), and there is no mask t2d to decide"
    )
    if _no_neighbours(len(ids), vocabulary) < _UNLIKELY:
        raise PrerequisiteError(f"{where}: {readings}", f"add the mask t2d, or {_HINT}")
    return f"{readings}; read as offsets, as the format defines it"


def _no_neighbours(rows: int, vocabulary: int) -> float:
    """Chance that ``rows`` ids drawn out of a vocabulary hold no two neighbours.

    C(V - n + 1, n) / C(V, n), by logarithms of factorials.
    """
    free = vocabulary - rows + 1
    if free < rows:
        return 0.0
    numerator = lgamma(free + 1) - lgamma(free - rows + 1)
    return exp(numerator - lgamma(vocabulary + 1) + lgamma(vocabulary - rows + 1))


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

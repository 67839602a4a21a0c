"""Whether two tokenizers give every id the same token, and which logit rows have no token.

Models of one family often pad their vocabularies to different sizes (case E1): a padded row may
get probability on either side, so it is masked on both and never compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specbench.errors import UsageError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class VocabularyMatch:
    """What a target and a draft share.

    Attributes:
        real_ids: ids that have a token, sorted; the same on both sides.
        target_rows, draft_rows: rows of the logits, padding included.
    """

    real_ids: tuple[int, ...]
    target_rows: int
    draft_rows: int

    @property
    def real_size(self) -> int:
        """Number of ids that have a token."""
        return len(self.real_ids)


def real_ids(tokenizer: Any) -> tuple[int, ...]:
    """Ids that have a token (added ones included), sorted; a hole between them is padding."""
    return tuple(sorted(set(tokenizer.get_vocab().values())))


def compare(
    target_tokenizer: Any,
    draft_tokenizer: Any,
    *,
    target_rows: int | None = None,
    draft_rows: int | None = None,
) -> VocabularyMatch:
    """Compare the token strings of two tokenizers, id by id.

    Args:
        target_tokenizer, draft_tokenizer: anything with ``get_vocab()``.
        target_rows, draft_rows: rows of each model's logits; None means "up to the last real id".

    Raises:
        UsageError: an id has different tokens, or a token on one side only, or lies beyond the
            rows of its own model. Names the first such id and both tokens.
    """
    target = _by_id(target_tokenizer)
    draft = _by_id(draft_tokenizer)
    for i in sorted(target.keys() | draft.keys()):
        if target.get(i) != draft.get(i):
            raise UsageError(
                f"target and draft have different tokenizers: id {i} is {_shown(target.get(i))} "
                f"for the target and {_shown(draft.get(i))} for the draft",
                "use a draft of the target's own family, or a drafter without a model (ngram)",
            )
    ids = tuple(sorted(target))
    rows = ids[-1] + 1 if ids else 0
    match = VocabularyMatch(ids, target_rows or rows, draft_rows or rows)
    for side, has in (("target", match.target_rows), ("draft", match.draft_rows)):
        if has < rows:
            raise UsageError(
                f"the {side} model has {has} vocabulary rows, but its tokenizer has id {rows - 1} "
                f"({target[rows - 1]!r})",
                "model and tokenizer do not belong together",
            )
    return match


def padding_mask(
    rows: int, real_ids: Iterable[int], device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Bool tensor [rows], True where a row has no token and its logit must be -inf."""
    import torch

    mask = torch.ones(rows, dtype=torch.bool)
    mask[[i for i in real_ids if i < rows]] = False
    return mask.to(device)


def _by_id(tokenizer: Any) -> dict[int, str]:
    return {i: token for token, i in tokenizer.get_vocab().items()}


def _shown(token: str | None) -> str:
    return "no token" if token is None else repr(token)

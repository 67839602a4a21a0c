"""Token strings are compared, padding is allowed (case E1)."""

from __future__ import annotations

import pytest

from specbench.errors import UsageError
from specbench.models.vocabulary import compare, padding_mask, real_ids


class Words:
    """The one method of a tokenizer that matters here."""

    def __init__(self, *tokens: str | None) -> None:
        self.vocabulary = {t: i for i, t in enumerate(tokens) if t is not None}

    def get_vocab(self) -> dict[str, int]:
        return self.vocabulary


EIGHT = Words(*"abcdefgh")


@pytest.mark.parametrize(("target_rows", "draft_rows"), [(10, 8), (8, 10), (8, 8), (None, None)])
def test_padding_may_differ(target_rows: int | None, draft_rows: int | None) -> None:
    match = compare(EIGHT, Words(*"abcdefgh"), target_rows=target_rows, draft_rows=draft_rows)
    assert match.real_size == 8
    assert (match.target_rows, match.draft_rows) == (target_rows or 8, draft_rows or 8)


def test_swapped_ids_are_refused_and_the_first_is_named() -> None:
    with pytest.raises(UsageError, match=r"id 3 is 'd' for the target and 'e' for the draft"):
        compare(EIGHT, Words(*"abcedfgh"))


def test_token_on_one_side_only() -> None:
    with pytest.raises(UsageError, match="id 7 is 'h' for the target and no token for the draft"):
        compare(EIGHT, Words(*"abcdefg"), target_rows=8, draft_rows=8)


@pytest.mark.parametrize(("side", "rows"), [("target", (7, 8)), ("draft", (8, 7))])
def test_more_tokens_than_rows(side: str, rows: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match=f"the {side} model has 7 vocabulary rows"):
        compare(EIGHT, EIGHT, target_rows=rows[0], draft_rows=rows[1])


def test_holes_are_padding() -> None:
    tokenizer = Words("a", None, "c")
    match = compare(tokenizer, tokenizer, target_rows=5, draft_rows=3)
    assert match.real_ids == real_ids(tokenizer) == (0, 2)
    pytest.importorskip("torch")
    assert padding_mask(5, match.real_ids).tolist() == [False, True, False, True, True]
    assert padding_mask(3, match.real_ids).tolist() == [False, True, False]

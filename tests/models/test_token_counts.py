"""Tokens of texts from a tokenizer's file, and the guess without one."""

from __future__ import annotations

from specbench.models.token_counts import counts
from tests.models.tiny import write_tokenizer


def test_texts_are_counted_without_special_tokens(tmp_path):
    write_tokenizer(tmp_path)
    # merges: two spaces, "he", "ll"; all else is a token a byte
    assert counts(tmp_path, ["hello", "", "xyz  "]) == ([3, 0, 4], True)


def test_without_a_tokenizer_it_is_four_characters(tmp_path):
    assert counts(tmp_path, ["12345678", "123456789", ""]) == ([2, 3, 0], False)


def test_a_file_that_is_no_tokenizer_counts_nothing(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    assert counts(tmp_path, ["1234"]) == ([1], False)

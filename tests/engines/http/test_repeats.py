"""Streams that repeat everything, and those that only look like it."""

from __future__ import annotations

from specbench.engines.http.piece import Piece
from specbench.engines.http.repeats import without_repeats


def cut(*pieces):
    found = [piece for _, piece in without_repeats([(0, piece) for piece in pieces])]
    return [piece.text for piece in found], [piece.token_ids for piece in found]


def test_repeated_text_and_ids_are_cut():
    texts, ids = cut(
        Piece(text=" a", token_ids=(1,), completion_tokens=1),
        Piece(text=" a b", token_ids=(1, 2), completion_tokens=2),
        Piece(text=" a b c d", token_ids=(1, 2, 3, 4), completion_tokens=4),
    )
    assert texts == [" a", " b", " c d"]
    assert ids == [(1,), (2,), (3, 4)]


def test_a_stream_of_equal_tokens_repeats_nothing():
    pieces = [Piece(text=" ha", token_ids=(5,), completion_tokens=n) for n in (1, 2, 3)]
    assert cut(*pieces) == ([" ha"] * 3, [(5,)] * 3)
    assert cut(Piece(text=" ha"), Piece(text=" ha"))[0] == [" ha", " ha"]


def test_text_alone_is_enough_where_each_holds_the_one_before():
    assert cut(Piece(text="a"), Piece(text="ab"), Piece(text="abc"))[0] == ["a", "b", "c"]


def test_a_stop_string_that_is_cut_off_at_the_end_is_nobodys():
    texts, _ = cut(
        Piece(text="a", token_ids=(1,), completion_tokens=1),
        Piece(text="a##", token_ids=(1, 2), completion_tokens=2),
        Piece(text="a", token_ids=(1, 2, 3), completion_tokens=3),
    )
    assert texts == ["a", "", ""]


def test_events_without_text_change_nothing():
    texts, _ = cut(Piece(), Piece(text="a"), Piece(text="ab"), Piece(text="abc"), Piece(done=True))
    assert texts == ["", "a", "b", "c", ""]

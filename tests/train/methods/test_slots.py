"""Two conversations laid out by hand: which token and which row every step sees."""

from __future__ import annotations

import torch

from specbench.train.methods.slots import slots_of

# Tokens 10 .. 14 (answer from place 2) and 20 .. 26 (answer from place 3), one after the other.
IDS = torch.tensor([10, 11, 12, 13, 14, 20, 21, 22, 23, 24, 25, 26])
LENGTHS, ANSWERS = (5, 7), (2, 3)


def test_slots_are_all_tokens_but_the_last():
    slots = slots_of(LENGTHS, ANSWERS, 2)
    assert slots.lengths == (4, 6)
    assert slots.tokens.tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9, 10]
    assert slots.places.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5]


def test_the_token_of_each_slot():
    slots = slots_of(LENGTHS, ANSWERS, 3)
    assert slots.following(IDS, 0).tolist() == [11, 12, 13, 14, 21, 22, 23, 24, 25, 26]
    assert slots.following(IDS, 1).tolist() == [12, 13, 14, 0, 22, 23, 24, 25, 26, 0]
    assert slots.following(IDS, 2).tolist() == [13, 14, 0, 0, 23, 24, 25, 26, 0, 0]


def test_rows_behind_the_answers_first_token_are_judged():
    slots = slots_of(LENGTHS, ANSWERS, 2)
    # Rows 2, 3 of the first, which predict its tokens at 3 and 4; 3, 4, 5 of the second, from 5 on.
    assert slots.rows.tolist() == [2, 3, 8, 9, 10]
    assert IDS[slots.rows + 1].tolist() == [13, 14, 24, 25, 26]


def test_every_step_reaches_its_row_with_the_token_of_the_row():
    slots = slots_of(LENGTHS, ANSWERS, 2)
    # Row r is predicted behind x_r, which step s takes at slot r - 1 - s.
    for step in range(2):
        assert torch.equal(slots.following(IDS, step)[slots.at - step], IDS[slots.rows])
    assert slots.tokens[slots.at].tolist() == [1, 2, 7, 8, 9]
    assert slots.tokens[slots.at - 1].tolist() == [0, 1, 6, 7, 8]


def test_rows_without_a_slot_at_the_last_step_are_not_judged():
    assert slots_of(LENGTHS, ANSWERS, 4).rows.tolist() == [9, 10]
    assert slots_of(LENGTHS, ANSWERS, 1, whole=True).rows.tolist() == [1, 2, 3, 6, 7, 8, 9, 10]


def test_a_conversation_may_be_too_short_for_any_row():
    slots = slots_of((3, 7), (2, 3), 5)
    assert slots.rows.tolist() == [8]
    assert slots_of((2,), (1,), 7).rows.tolist() == []
    # A prompt without an answer.
    assert slots_of((4,), (4,), 1).rows.tolist() == []


def test_rows_of_a_model_of_its_own_begin_at_the_first():
    assert slots_of((3, 2), (2, 1), 0, whole=True).rows.tolist() == [0, 1, 3]

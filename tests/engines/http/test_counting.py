"""Where token counts come from, and how one count at the end is spread over events (case D5)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specbench.core.trace import Counted, Finish
from specbench.engines.http.counting import count_tokens
from specbench.engines.http.piece import Piece


def words(text):
    """A tokenizer whose tokens are words with the space before them; spaces on end are one."""
    starts = []
    for index, letter in enumerate(text):
        if letter == " " and not (index and text[index - 1] == " "):
            starts.append(index)
        elif index == 0:
            starts.append(0)
    return starts


def pieces(*texts, finish=Finish.LENGTH, usage=None):
    return [*(Piece(text=text) for text in texts), Piece(finish=finish, completion_tokens=usage)]


def counted(*args, **kwargs):
    found = count_tokens(*args, **kwargs)
    return found.tokens, found.how


def test_one_token_per_event_where_usage_says_so_whatever_a_tokenizer_merges():
    spaces = pieces(*[" "] * 15, usage=15)
    assert counted(spaces, False, words) == ([1] * 15 + [0], Counted.USAGE)


def test_without_usage_the_whole_text_is_tokenised_once():
    assert counted(pieces(*[" "] * 15), False, words) == ([1] + [0] * 15, Counted.ESTIMATED)
    assert counted(pieces(" a b", " c"), False, words) == ([2, 1, 0], Counted.ESTIMATED)


def test_without_usage_and_tokenizer_an_event_is_a_token():
    assert counted(pieces(" a b", " c"), False, None) == ([1, 1, 0], Counted.ESTIMATED)


def test_an_end_token_in_the_usage_came_with_the_finish():
    ended = pieces(" a b", " c", finish=Finish.EOS, usage=4)
    assert counted(ended, False, words) == ([2, 1, 1], Counted.USAGE)
    assert counted(pieces("x", "y", finish=Finish.EOS, usage=3), False, None)[0] == [1, 1, 1]


def test_no_end_token_is_made_up_for_an_output_cut_by_its_length():
    assert counted(pieces("x", "y", usage=3), False, None)[0] == [2, 1, 0]


def test_shares_follow_the_text_where_counts_disagree():
    # two events have a token each for certain; the other 6 go to the event with 4 of 4 more words
    assert counted(pieces(" a b c d e", " f", usage=8), False, words)[0] == [7, 1, 0]


def test_a_count_in_every_event_gives_the_rises():
    rising = [
        Piece(completion_tokens=0),
        Piece(text="a", completion_tokens=1),
        Piece(text="bcd", completion_tokens=4),
        Piece(finish=Finish.EOS, completion_tokens=5),
    ]
    assert counted(rising, False, None) == ([0, 1, 3, 1], Counted.CHUNK_USAGE)


def test_a_count_behind_the_finish_belongs_to_the_finish():
    late = [
        Piece(text="a", completion_tokens=1),
        Piece(finish=Finish.EOS, completion_tokens=1),
        Piece(completion_tokens=2),
    ]
    assert counted(late, False, None)[0] == [1, 1, 0]


def test_ids_count_and_a_hidden_end_is_added_where_the_finish_came():
    shown = [
        Piece(token_ids=(7,)),
        Piece(text="ab", token_ids=(8, 9)),
        Piece(finish=Finish.EOS, completion_tokens=4),
    ]
    found = count_tokens(shown, False, None)
    assert (found.tokens, found.how, found.ids) == ([1, 2, 1], Counted.IDS, [7, 8, 9])
    assert found.hidden_end


def test_ids_with_gaps_are_not_taken_for_the_output():
    gaps = [
        Piece(text="é", token_ids=(8,), completion_tokens=3),
        Piece(finish=Finish.LENGTH, completion_tokens=3),
    ]
    found = count_tokens(gaps, False, None)
    assert (found.tokens, found.how, found.ids) == ([3, 0], Counted.CHUNK_USAGE, [])
    some = [Piece(text="a", token_ids=(8,)), Piece(text="b"), Piece(completion_tokens=2)]
    assert count_tokens(some, False, None).how is Counted.USAGE


def test_reasoning_counts_and_a_whole_answer_is_one_arrival():
    thinking = [Piece(reasoning="a"), Piece(text="c"), Piece(completion_tokens=2)]
    assert counted(thinking, False, None)[0] == [1, 1, 0]
    whole = [Piece(text="a b c", completion_tokens=9, finish=Finish.EOS)]
    assert counted(whole, True, None) == ([9], Counted.USAGE)


def test_text_without_tokens_of_its_own_is_shared_out_among_its_events():
    # 2 tokens over 3 events with text; the role in front has none
    odd = [Piece(), *(Piece(text="\u200b") for _ in range(3)), Piece(completion_tokens=2)]
    assert counted(odd, False, lambda text: []) == ([0, 1, 1, 0, 0], Counted.USAGE)


def test_an_output_of_nothing_but_its_end():
    assert counted(pieces(finish=Finish.EOS, usage=1), False, words) == ([1], Counted.USAGE)
    assert counted([Piece(completion_tokens=n) for n in (1, 3)], False, None)[0] == [1, 2]


@given(
    texts=st.lists(st.text("ab ", min_size=1, max_size=12), min_size=1, max_size=12),
    usage=st.integers(1, 200),
    finish=st.sampled_from([Finish.EOS, Finish.LENGTH]),
)
def test_the_sum_is_always_the_usage(texts, usage, finish):
    found = count_tokens(pieces(*texts, finish=finish, usage=usage), False, words)
    assert sum(found.tokens) == usage
    assert min(found.tokens) >= 0
    assert found.how is Counted.USAGE

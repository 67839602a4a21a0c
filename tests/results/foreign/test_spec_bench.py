"""Spec-Bench answers: which entries are decode steps, what lies behind an end, what contradicts."""

from __future__ import annotations

import itertools
import random

import pytest

from specbench.errors import UsageError
from specbench.results.foreign.bounds import extremes
from specbench.results.foreign.spec_bench import OWN_PREFILL, PROMPT_FIRST
from specbench.results.schema import ResultError
from tests.results.foreign.written import answer, imported, values

TWO = [
    answer(1, "writing", 2, (3, 2, 4, 4, 1), tokens=(9, 5), seconds=(1.0, 0.5)),
    answer(2, "qa", 1, (4, 2), seconds=(0.5,)),
]
"""Turns (3, 2, 4), (4, 1) and (4, 2)."""


def test_a_loop_with_a_prefill_of_its_own(tmp_path):
    found = imported(tmp_path, TWO, method="eagle3")
    # Without the last entries: 3 + 2, 4 and 4 over 4 steps.
    assert values(found)["accept_length_uncut", "value"] == pytest.approx(13 / 4)
    # 20 tokens in 2 s, at the least 4 + 1 + 2 fewer: no token of the last entries.
    assert values(found)["tokens_per_s_e2e", "value"] == pytest.approx((13 / 2, 10))


def test_the_forward_of_the_prompt_is_no_decode_step(tmp_path):
    found = imported(tmp_path, TWO, method="pld")
    # Entries 2, 4 | 1 | 2 are decode steps; without the last of each turn one entry of 2 is left.
    assert values(found)["accept_length_uncut", "value"] == pytest.approx(2)
    # 9 tokens in 4 steps; the last entries as 1 token each: 2 + 1 + 1 + 1.
    assert values(found)["accept_length", "value"] == pytest.approx((5 / 4, 9 / 4))
    assert values(found, "qa")["accept_length", "value"] == pytest.approx((1, 2))
    assert ("accept_length_uncut", "value") not in values(found, "qa")


@pytest.mark.parametrize("method", [PROMPT_FIRST[1], OWN_PREFILL[0]])
def test_bounds_hold_wherever_an_answer_ends(tmp_path, method):
    """Enumerate where each of two answers may end, and count as our engines would."""
    first, second = (3, 2, 4), (4, 3)
    answers = [answer(1, lengths=first), answer(2, lengths=second)]
    low, high = values(imported(tmp_path, answers, method=method))["accept_length", "value"]
    seen = [
        (a + b) / (s + t)
        for (a, s), (b, t) in itertools.product(_ended(first, method), _ended(second, method))
    ]
    assert low <= min(seen)
    assert high >= max(seen)


def _ended(lengths, method):
    """(committed, steps) of an answer for every last token in the final entry.

    With a prefill of its own the token before the steps is on record as the first of the first
    entry: what a step commits is its entry moved by one token.
    """
    if method in PROMPT_FIRST:
        entries = lengths[1:]
        return [(sum(entries[:-1]) + kept, len(entries)) for kept in range(1, entries[-1] + 1)]
    before = sum(lengths[:-1])
    ended = []
    for tokens in range(before + 1, sum(lengths) + 1):
        committed, steps = tokens - 1, 0
        # Our steps end one token behind the loop's entries.
        while sum(lengths[:steps]) < committed:
            steps += 1
        ended.append((committed, steps))
    return ended


def test_extremes_are_those_of_all_choices():
    rng = random.Random(7)
    for _ in range(50):
        options = [
            [(rng.randint(0, 9), rng.randint(1, 4)) for _ in range(rng.randint(1, 3))]
            for _ in range(4)
        ]
        ratios = [
            sum(top for top, _ in chosen) / sum(bottom for _, bottom in chosen)
            for chosen in itertools.product(*options)
        ]
        assert extremes(options) == pytest.approx((min(ratios), max(ratios)))


def test_plain_decoding_needs_no_method_and_is_exactly_1(tmp_path):
    found = imported(tmp_path, [answer(lengths=(1, 1, 1, 1), seconds=(0.5,))])
    assert values(found) == {
        ("accept_length_uncut", "value"): 1,
        ("accept_length", "value"): 1,
        ("tokens_per_s_e2e", "value"): 8,
    }
    assert found.conditions["method"] == "vanilla"


def test_without_a_method_nothing_can_be_converted(tmp_path):
    with pytest.raises(ResultError, match="none of its figures") as caught:
        imported(tmp_path, TWO)
    assert "--method NAME, the loop that wrote it, one of vanilla, sps" in caught.value.hint


def test_rest_begins_its_clock_behind_the_prefill(tmp_path):
    found = imported(tmp_path, TWO, method="rest")
    assert ("tokens_per_s_e2e", "value") not in values(found)
    assert any("begins behind the prompt's forward" in one.reason for one in found.refused)


def test_lookahead_cuts_answers_when_their_entries_are_on_record(tmp_path):
    # The last entry of the first turn says 3, of which 1 was kept.
    cut = answer(turns=2, lengths=(1, 2, 3, 1, 4), tokens=(4, 5), seconds=(1, 1))
    found = imported(tmp_path, [cut], method="lookahead")
    # Decode steps 2, 1 | 4; the second turn's last entry alone may hold what lies behind the end.
    assert values(found)["accept_length", "value"] == pytest.approx((4 / 3, 7 / 3))
    assert values(found)["tokens_per_s_e2e", "value"] == pytest.approx((3, 4.5))
    with pytest.raises(ResultError, match="add up to 11, new_tokens to 9"):
        imported(tmp_path, [cut], method="pld")


def test_failed_turns_are_left_out_and_counted(tmp_path):
    failed = answer(
        3, turns=2, lengths=(4, 2, 4, 2), tokens=(6, 6), texts=["fine", "ERROR"], seconds=(1, 1)
    )
    found = imported(tmp_path, [failed], method="eagle")
    assert values(found)["accept_length_uncut", "value"] == 4
    assert values(found)["tokens_per_s_e2e", "value"] == (4, 6)
    assert found.notes == ("turns that failed (ERROR) and are left out: 1",)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        # 2.3333 accepted per step instead of 3.3333 tokens (case C2)
        (answer(lengths=(0, 2, 5), tokens=(10,)), "add up to 7, new_tokens to 10"),
        (answer(lengths=(4, 2), tokens=(7,)), "add up to 6, new_tokens to 7"),
        (answer(turns=2, lengths=(3, 3), tokens=(2, 4)), "no entry .* ends with turn 1"),
        (answer(turns=2, tokens=(6,)), "of different lengths"),
        (answer(lengths=(4, 0, 2)), "an entry of accept_lengths is 0"),
        (answer(lengths=(4, -2)), r"choices\.0\.accept_lengths\.1 = -2: .* greater than or equal"),
        (answer(seconds=(-1.0,)), r"wall_time\.0 = -1.0"),
        (answer(lengths=(4, True)), r"accept_lengths\.1 = True"),
        (answer(texts=["ERROR"]), "holds no finished answer"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path, line, message):
    with pytest.raises(ResultError, match=message):
        imported(tmp_path, [line], method="eagle")


def test_an_accepted_only_file_says_which_definition_it_is(tmp_path):
    with pytest.raises(ResultError) as caught:
        imported(tmp_path, [answer(lengths=(0, 2, 5), tokens=(10,))], method="eagle")
    assert "they leave the target's own token out" in caught.value.hint


def test_a_question_twice_is_refused(tmp_path):
    with pytest.raises(ResultError, match="line 2: question 1 is there twice"):
        imported(tmp_path, [answer(1), answer(1)], method="eagle")


def test_a_longer_draft_than_k_is_refused(tmp_path):
    with pytest.raises(ResultError, match="at most 2 tokens, which give at most 3 per step"):
        imported(tmp_path, [answer(lengths=(4, 2))], method="eagle", k=2)
    assert imported(tmp_path, [answer(lengths=(4, 2))], method="eagle", k=3).k == 3


def test_an_unknown_method_names_near_ones(tmp_path):
    with pytest.raises(UsageError, match="unknown method 'eagel'"):
        imported(tmp_path, TWO, method="eagel")

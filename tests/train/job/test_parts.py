"""The split, the draft vocabulary, and what validation says, by hand."""

from collections import Counter
from math import exp, log

import pytest

from specbench.errors import UsageError
from specbench.train.data.asked import Answered
from specbench.train.job.split import split
from specbench.train.job.validate import Drafted, figures
from specbench.train.job.vocabulary import count_tokens, frequent_ids, outside_share


def answered(name, answer, source="s"):
    return Answered(name, source, (9, 9), tuple(answer), 0.0, "length")


def test_answers_to_one_prompt_are_on_one_side():
    answers = [answered(f"q-{n}/{turn}", [1]) for n in range(300) for turn in range(3)]
    train, held = split(answers, 0.2, "here")
    sides = [{one.id.split("/")[0] for one in side} for side in (train, held)]
    assert sides[0].isdisjoint(sides[1])
    assert len(train) + len(held) == 900
    # 60 of 300 prompts are expected; five standard deviations are 35.
    assert abs(len(sides[1]) - 60) < 35


def test_more_data_moves_nothing_across():
    answers = [answered(f"q-{n}/0", [1]) for n in range(200)]
    some, all_ = split(answers[:100], 0.2, "")[1], split(answers, 0.2, "")[1]
    assert {one.id for one in some} <= {one.id for one in all_}
    more = split(answers, 0.5, "")[1]
    assert {one.id for one in all_} <= {one.id for one in more}


def test_an_empty_side_is_refused():
    with pytest.raises(UsageError, match=r"none is left held out with data\.held_out = 1e-09"):
        split([answered("q-1/0", [1])], 1e-9, "here")
    with pytest.raises(UsageError, match="none is left to train on"):
        split([answered("q-1/0", [1])], 1 - 1e-9, "here")


def test_most_frequent_ids():
    counted = count_tokens([answered("a", [5, 5, 7, 9]), answered("b", [7, 5, 2])])
    assert counted == Counter({5: 3, 7: 2, 9: 1, 2: 1})
    # The end is in whatever its count; of two as frequent the lower id.
    assert frequent_ids(counted, 4, (11,), 20) == [2, 5, 7, 11]
    # Where fewer were said the lowest ids fill up.
    assert frequent_ids(counted, 8, (11,), 20) == [0, 1, 2, 3, 5, 7, 9, 11]
    assert frequent_ids(counted, 1, (11,), 20) == [11]


def test_the_share_outside_by_hand():
    answers = [
        answered("a", [5, 5, 7, 9], "code"),
        answered("b", [7, 3], "code"),
        answered("c", [5], "chat"),
    ]
    # Of six tokens of code 9 and 3 are outside.
    assert outside_share(answers, [5, 7]) == {"code": 2 / 6, "chat": 0.0}


def test_columns_of_the_curves():
    row = figures({0.0: Drafted(2.0, (0.5, 0.25)), 0.7: Drafted(3.0, (0.7,))})
    assert row == {
        "accept_length": 2.5,
        "accept_length_t0": 2.0,
        "accept_length_t0.7": 3.0,
        "held_alpha_1": pytest.approx(0.6),
        "held_alpha_2": 0.25,
    }


def test_the_target_says_what_its_law_says(bench, one_thread):
    """The target of these tests: its law by hand is that of the model on disk."""
    import torch
    from transformers import AutoModelForCausalLM

    from tests.train.job.spelling import AHEAD, SURE, ids, law

    model = AutoModelForCausalLM.from_pretrained(bench.root / "target")
    letter = ids()[3]
    with torch.no_grad():
        found = model(torch.tensor([[1, 20, letter]])).logits[0, -1].softmax(0)
    torch.testing.assert_close(found, law("".join(_letters())[3]), rtol=1e-4, atol=1e-6)
    # The next letter against the same one again: by how much its axis is longer.
    ratio = float(found[ids()[4]] / found[letter])
    size = (32 / (1 + AHEAD**2 + 0.25)) ** 0.5
    assert log(ratio) == pytest.approx(SURE * (AHEAD - 1) * size, rel=1e-3)
    assert ratio > exp(4)


def _letters():
    from tests.train.job.spelling import LETTERS

    return LETTERS

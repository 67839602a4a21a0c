from dataclasses import replace

import pytest

from specbench.core.suite import Prompt, Scoring
from specbench.core.trace import Finish
from specbench.errors import UsageError
from specbench.quality.answers import answers_of, until_stop
from tests.metrics.traces import trace
from tests.quality.made import CODE, translation

TWO_TURNS = Prompt("a", "c", "test", ("one", "two"), reference="right", scoring=CODE)


def prompts(prompt):
    return {(trace("a").key.suite, "a"): prompt}


def test_the_last_turn_is_scored():
    traces = [trace("a", turn=0), trace("a", turn=1)]
    (found,) = answers_of(traces, prompts(TWO_TURNS))
    assert (found.key, found.arm, found.text) == (traces[1].key, "mtp", traces[1].text)
    assert (found.scoring, found.reference) == (CODE, "right")
    assert found.conversation == ("one", "two")
    assert found.item == f"{traces[1].key.suite}/a"


@pytest.mark.parametrize(
    ("finish", "counts"),
    [
        (Finish.EOS, True),
        (Finish.STOP, True),
        (Finish.LENGTH, True),
        (Finish.OOM, False),
        (Finish.ERROR, False),
        (Finish.SKIPPED, False),
    ],
)
def test_a_cut_answer_counts_and_a_failed_request_does_not(finish, counts):
    found = answers_of([trace("a", turn=1, finish=finish)], prompts(TWO_TURNS))
    assert bool(found) is counts


@pytest.mark.parametrize(
    ("scoring", "reference"), [(None, "right"), (translation(), None), (translation(), "")]
)
def test_prompts_that_cannot_be_scored_are_ignored(scoring, reference):
    prompt = replace(TWO_TURNS, scoring=scoring, reference=reference)
    assert answers_of([trace("a", turn=1)], prompts(prompt)) == []


def test_json_needs_no_reference():
    prompt = replace(TWO_TURNS, scoring=Scoring("json", required=("k",)), reference=None)
    assert len(answers_of([trace("a", turn=1)], prompts(prompt))) == 1


def test_a_prompt_that_the_suite_does_not_have():
    with pytest.raises(UsageError, match=r"holds an answer to \w+/b, which the suite"):
        answers_of([trace("b")], prompts(TWO_TURNS))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("    x\n<|endoftext|>y", "    x\n"),
        ("a<|im_end|>b<|endoftext|>c", "a"),
        ("a<|endoftext|>b<|im_end|>c", "a"),
        ("a<end_of_turn>\n", "a"),
        ("a</s>\n", "a"),
        ("<s>old</s> new", "<s>old</s> new"),
        ("x |> f <| y", "x |> f <| y"),
        ("", ""),
    ],
)
def test_an_answer_ends_at_the_earliest_stop_word(text, kept):
    assert until_stop(text) == kept

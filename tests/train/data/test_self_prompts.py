"""Prompts that a target writes itself, with a template and traces by hand."""

import pytest

from specbench.core.request import Sampling
from specbench.core.trace import Finish
from specbench.errors import PrerequisiteError, SpecbenchError
from specbench.metrics.degenerate import repeated_share
from specbench.train.data.self_prompts import beginning, self_prompts
from tests.train.data.answering import END, FakeTarget

GOOD = " does the moon not fall down?"
SAMPLING = Sampling(0.8, top_p=0.95)


def written(target, openers, system="", batch=2, longest=50, seed=7):
    return dict(
        self_prompts(
            target,
            openers,
            system=system,
            sampling=SAMPLING,
            longest=longest,
            batch=batch,
            seed=seed,
        )
    )


def saying(text, finish=Finish.EOS):
    return FakeTarget(lambda request: (text, finish))


@pytest.mark.parametrize(("system", "before"), [("", "<u>"), ("Be kind.", "<s>Be kind.</><u>")])
def test_the_beginning_is_the_template_up_to_the_words(system, before):
    assert beginning(saying(GOOD), system) == before


def test_an_opener_stands_behind_the_beginning():
    target = saying(GOOD)
    found = written(target, {"a-0": "Why", "a-1": ""}, system="S")
    assert found == {"a-0": "Why does the moon not fall down?", "a-1": GOOD.strip()}
    first, second = target.asked
    assert "".join(map(chr, first.token_ids)) == "<s>S</><u>Why"
    assert "".join(map(chr, second.token_ids)) == "<s>S</><u>"
    assert target.batches == [2]
    for request in target.asked:
        assert request.sampling == SAMPLING
        assert request.limits.max_new_tokens == 50
        assert request.stops.token_ids == (END,)


def test_random_numbers_follow_from_name_and_seed():
    def seeds(openers, seed=7):
        target = saying(GOOD)
        written(target, openers, seed=seed)
        return {request.key.item: request.seed for request in target.asked}

    two = seeds({"a-0": "Why", "a-1": "How"})
    assert two["a-0"] != two["a-1"]
    assert seeds({"a-1": "How"}) == {"a-1": two["a-1"]}
    assert seeds({"a-1": "How"}, seed=8)["a-1"] != two["a-1"]


@pytest.mark.parametrize(
    ("text", "finish", "kept"),
    [
        (GOOD, Finish.LENGTH, True),
        ("abcdefghijkl", Finish.EOS, True),
        ("", Finish.EOS, False),
        (" " * 30, Finish.EOS, False),
        ("   abcdefghijk\n", Finish.EOS, False),
        ("go round and round, " * 5, Finish.LENGTH, False),
    ],
    ids=["cut", "12 characters", "empty", "blank", "11 characters", "looping"],
)
def test_texts_that_ask_nothing_are_left_out(text, finish, kept):
    assert written(saying(text, finish), {"a-0": "Why"}) == {
        "a-0": f"Why{text}".strip() if kept else None
    }


def test_a_looping_text_is_the_one_that_metrics_call_degenerate():
    assert repeated_share(list(map(ord, "go round and round, " * 5))) == pytest.approx(0.8)


@pytest.mark.parametrize(
    "template", ["<{role}>{text!r:.3}</>", "<{role}>no words</>"], ids=["changed", "left out"]
)
def test_a_template_that_changes_the_words(template):
    target = FakeTarget(lambda _: (GOOD, Finish.EOS), template)
    with pytest.raises(PrerequisiteError, match="changes the user's words") as refused:
        written(target, {"a-0": ""})
    assert 'source = "self"' in refused.value.hint
    assert target.asked == []


def test_a_template_without_marks():
    with pytest.raises(PrerequisiteError, match="nothing before the user's words"):
        written(FakeTarget(lambda _: (GOOD, Finish.EOS), "{text}"), {"a-0": ""})


@pytest.mark.parametrize(
    ("finish", "hint"), [(Finish.OOM, "lower data.batch"), (Finish.ERROR, "same command")]
)
def test_a_target_that_fails_is_no_empty_prompt(finish, hint):
    target = FakeTarget(lambda r: (GOOD, Finish.EOS if r.key.item == "a-0" else finish))
    writing = self_prompts(
        target, {"a-0": "", "a-1": ""}, system="", sampling=SAMPLING, longest=9, batch=1, seed=0
    )
    assert next(writing) == ("a-0", GOOD.strip())
    with pytest.raises(SpecbenchError, match="writing a-1 failed: RuntimeError: no room") as failed:
        next(writing)
    assert hint in failed.value.hint

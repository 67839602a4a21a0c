"""No prompt of a measured suite gets past, by id or by wording, and little else is left out."""

import re

import pytest

from specbench.errors import UsageError
from specbench.suites.describe import text_of_prompt
from specbench.suites.loader import load_suite
from specbench.train.data.excluded import EVALUATED, Excluded
from specbench.train.data.library import library_prompts
from specbench.train.data.near import WORDS, NearDuplicates, words

SUITES = [load_suite(name) for name in EVALUATED]
TURNS = [(suite.name, turn) for suite in SUITES for p in suite.prompts for turn in p.turns]


@pytest.fixture(scope="module")
def excluded():
    return Excluded([])


def other_case_and_spaces(text):
    return re.sub(r"\s+", " \n ", text.upper()).replace(",", " ;")


def one_word_changed(text):
    """The middle one of its ASCII words is another."""
    found = list(re.finditer(r"[A-Za-z]{2,}", text))
    if not found:
        return text
    at = found[len(found) // 2]
    return f"{text[: at.start()]}zzyzx{text[at.end() :]}"


def one_character_changed(text):
    """The middle one of its Chinese characters is another."""
    found = [i for i, character in enumerate(text) if "\u4e00" <= character <= "\u9fff"]
    if not found:
        return text
    at = found[len(found) // 2]
    return f"{text[:at]}口{text[at + 1 :]}"


def one_sentence_changed(text):
    """The middle sentence is another, where there are enough of some length."""
    parts = re.split(r"(?<=[.!?。]) *", text)
    place = len(parts) // 2
    if len(parts) < 5 or 4 * len(words(parts[place])) > len(words(text)):
        return text
    return " ".join([*parts[:place], "The fox is brown.", *parts[place + 1 :]])


def with_greeting(text):
    return f"Hello there, can you help me with this today?\n\n{text}\n\nThank you in advance!"


EDITS = {
    str: 0,
    other_case_and_spaces: 400,
    one_word_changed: 400,
    one_character_changed: 20,
    one_sentence_changed: 150,
    with_greeting: 400,
}
"""Edit -> how many turns it changes, at least."""


def test_there_are_prompts_of_several_turns():
    turns = [len(p.turns) for suite in SUITES for p in suite.prompts]
    assert max(turns) == 3
    assert sum(n > 1 for n in turns) > 50


def test_every_prompt_is_refused_by_its_id(excluded):
    for suite in SUITES:
        for prompt in suite.prompts:
            assert excluded.reason("x", f"{suite.name}/{prompt.id}") == "an evaluation prompt"
    assert excluded.reason("x", "other/code-function-001") is None
    assert excluded.digests == {suite.name: suite.digest for suite in SUITES}


@pytest.mark.parametrize("edit", EDITS)
def test_every_turn_is_refused_by_its_wording(excluded, edit):
    # Below five words there is nothing to tell an edit by.
    edited = [(name, t, edit(t)) for name, t in TURNS if edit is str or len(words(t)) >= WORDS]
    assert sum(t != text for _, t, text in edited) >= EDITS[edit]
    missed = [(name, t) for name, t, text in edited if excluded.reason(text, "") is None]
    assert not missed


def test_the_suite_of_a_near_duplicate_is_named(excluded):
    text = SUITES[2].prompts[0].turns[0]
    assert excluded.reason(text.lower(), "mine/1") == "near duplicate of a prompt in translation"


def test_prompts_that_share_an_instruction_are_not_near_each_other():
    texts = [(p.id, text_of_prompt(p)) for p in SUITES[2].prompts]
    for name, text in texts[::8]:
        others = NearDuplicates(pair for pair in texts if pair[0] != name)
        assert others.of(text) is None


def test_prompts_about_the_library_are_not_left_out(excluded):
    prompts = [t for kind in ("code", "text") for _, t in library_prompts(kind, 60, 11)]
    assert [text for text in prompts if excluded.reason(text, "")] == []


def test_other_content_behind_an_instruction_of_the_suite(excluded):
    instruction = "Translate this from English to French. Give only the translation."
    assert sum(instruction in turn for _, turn in TURNS) > 1
    mine = "Class giving the operation constants for the handler of user data."
    assert excluded.reason(f"{instruction}\n\n{mine}", "") is None


def test_further_suites_are_excluded_too(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"id": "a", "prompt": "Which knot holds two ropes of unequal thickness?"}\n')
    excluded = Excluded([str(path)])
    assert excluded.reason("x", "mine/a") == "an evaluation prompt"
    near = excluded.reason("Which knot holds two wet ropes of unequal thickness?", "")
    assert near == "near duplicate of a prompt in mine"
    assert list(excluded.digests) == [*EVALUATED, "mine"]


def test_an_unknown_suite_is_refused():
    with pytest.raises(UsageError, match="no suite 'chatt'"):
        Excluded(["chatt"])

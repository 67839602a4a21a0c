"""The tokenizer behind a server's model, and prompts without one."""

from __future__ import annotations

import hashlib

import pytest

from specbench.core.prompt import RenderedPrompt
from specbench.engines.http.tokens import ModelTokens, open_tokens, without_tokens
from specbench.errors import PrerequisiteError

HELLO = ({"role": "user", "content": "hé"},)


def test_a_named_tokenizer_must_be_there():
    with pytest.raises(PrerequisiteError, match="nowhere") as caught:
        open_tokens("nowhere", "target", None, None)
    assert "--tokenizer" in caught.value.hint


def test_the_targets_own_is_used_where_it_is_found_and_missed_where_it_is_not(words):
    found = open_tokens(None, words, None, None)
    assert found is not None
    assert open_tokens(words, "whatever", None, None).eos_ids == found.eos_ids
    assert open_tokens(None, "nowhere", None, None) is None
    assert open_tokens(None, "nowhere", None, "none") is None


def test_a_template_needs_a_tokenizer():
    with pytest.raises(PrerequisiteError, match="no tokenizer"):
        open_tokens(None, "nowhere", None, "chat.jinja")


def test_tokens_begin_where_the_tokenizer_says(words):
    tokens = open_tokens(words, "", None, None)
    text = "cat dog cat"
    starts = tokens.starts(text)
    assert len(starts) == len(tokens.tokenizer.encode(text, add_special_tokens=False))
    assert starts[0] == 0
    assert starts == sorted(starts)


def test_a_slow_tokenizer_counts_and_spreads():
    class Slow:
        def encode(self, text, add_special_tokens):
            assert not add_special_tokens
            return text.split()

    assert ModelTokens(Slow(), None, (), None).starts("ab cd ef gh") == [0, 2, 5, 8]
    assert ModelTokens(Slow(), None, (), None).starts("") == []


class Starting:
    """A tokenizer of words that puts a start token before a text."""

    bos_token = "<s>"

    def encode(self, text, add_special_tokens):
        ids = [1 if word == "<s>" else 7 for word in text.replace("<s>", "<s> ").split()]
        return [1, *ids] if add_special_tokens else ids


@pytest.mark.parametrize(
    ("text", "ids", "sent"),
    [
        ("<s>a b", (1, 7, 7), "a b"),
        ("a b", (1, 7, 7), "a b"),
        ("a b", (7, 7), "a b"),
        ("<s><s>a", (1, 1, 7), "<s>a"),
    ],
    ids=["the template wrote it", "raw text", "nothing helps", "two on purpose"],
)
def test_a_server_that_adds_a_start_token_gets_a_text_without_it(text, ids, sent):
    tokens = ModelTokens(Starting(), None, (), None)
    assert tokens.for_adding(RenderedPrompt(ids, text, "")) == sent


def test_without_a_tokenizer_the_conversation_is_hashed_as_it_is_sent():
    rendered = without_tokens(HELLO, None)
    document = '[{"content":"hé","role":"user"}]'
    assert rendered.digest == hashlib.sha256(document.encode()).hexdigest()
    assert (rendered.text, rendered.template, rendered.token_ids) == ("hé", "server", ())
    assert not rendered.tokenised
    assert without_tokens(HELLO, "none").template == "none"

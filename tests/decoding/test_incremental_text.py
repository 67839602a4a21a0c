"""Characters split over tokens (CASES F6), with a byte-level tokenizer."""

import pytest

from specbench.core.request import Limits, Stops
from specbench.core.trace import Finish
from specbench.decoding.stops import StopChecker
from specbench.models.detokenize import IncrementalText, full_text

TEXT = "日本🎉"


def pushed(tokenizer, ids):
    text = IncrementalText(tokenizer)
    return [text.push(i) for i in ids], text


def test_text_appears_with_the_last_byte_of_each_character(byte_tokenizer):
    ids = byte_tokenizer.encode(TEXT)
    assert len(ids) == 10
    pieces, text = pushed(byte_tokenizer, ids)
    assert pieces == ["", "", "日", "", "", "本", "", "", "", "🎉"]
    assert text.flush() == ""


def test_an_unfinished_character_is_flushed_as_one_replacement(byte_tokenizer):
    pieces, text = pushed(byte_tokenizer, byte_tokenizer.encode(TEXT)[:8])
    assert "".join(pieces) == "日本"
    assert text.flush() == "\ufffd"


@pytest.mark.parametrize("sample", ["the hello  all", "a\n b", "né日 🎉x", "   "])
def test_pieces_join_to_the_whole_text(byte_tokenizer, sample):
    ids = byte_tokenizer.encode(sample)
    pieces, text = pushed(byte_tokenizer, ids)
    assert "".join(pieces) + text.flush() == full_text(byte_tokenizer, ids) == sample


def test_text_goes_on_after_bytes_that_never_become_a_character(byte_tokenizer):
    broken = byte_tokenizer.encode("日")[:1]
    ids = [*broken, *byte_tokenizer.encode("ok")]
    pieces, text = pushed(byte_tokenizer, ids)
    assert "".join(pieces) + text.flush() == "\ufffdok"


def test_special_tokens_have_no_text(byte_tokenizer):
    ids = [*byte_tokenizer.encode("a"), 2, *byte_tokenizer.encode("b")]
    pieces, _ = pushed(byte_tokenizer, ids)
    assert pieces == ["a", "", "b"]


@pytest.mark.parametrize("stop", ["🎉", "本🎉", "日"])
def test_a_stop_string_is_found_inside_split_characters(byte_tokenizer, stop):
    ids = byte_tokenizer.encode("x" + TEXT + "y")
    checker = StopChecker(Stops((), (stop,)), Limits(99), 1, IncrementalText(byte_tokenizer))
    reasons = [checker.push(i) for i in ids]
    at = ("x" + TEXT).index(stop)
    assert reasons.index(Finish.STOP) + 1 == len(("x" + TEXT)[: at + len(stop)].encode())
    assert checker.text_end == at

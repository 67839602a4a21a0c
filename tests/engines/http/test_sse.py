"""Server-sent events cut anywhere (case D7)."""

from __future__ import annotations

import json
from itertools import combinations, pairwise

import pytest

from specbench.engines.http.sse import SseParser

STREAM = (
    'data: {"choices":[{"text":" hi"}]}\n\n'
    ": ping\n\n"
    'data: {"choices":[{"text":"日本"}]}\n\n'
    "data: [DONE]\n\n"
)
ENDS = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}


def parsed(data: bytes, cuts=()) -> list[str]:
    parser, events = SseParser(), []
    borders = [0, *cuts, len(data)]
    for start, end in pairwise(borders):
        events += parser.feed(data[start:end])
    assert not parser.finish()
    return events


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_every_cut_and_every_pair_of_cuts(end):
    data = STREAM.replace("\n", end).encode()
    offsets = range(1, len(data))
    for cuts in [*((cut,) for cut in offsets), *combinations(offsets, 2)]:
        *texts, mark = parsed(data, cuts)
        assert [json.loads(text)["choices"][0]["text"] for text in texts] == [" hi", "日本"]
        assert mark == "[DONE]"


def test_lines_of_one_event_are_joined_and_only_one_space_is_dropped():
    assert parsed(b"data: a\ndata:  b\ndata:c\ndata\n\n") == ["a\n b\nc\n"]


def test_a_byte_order_mark_is_dropped_even_when_it_is_cut():
    data = b"\xef\xbb\xbfdata: a\n\n"
    assert all(parsed(data, (cut,)) == ["a"] for cut in range(1, 6))


def test_other_fields_and_events_without_data_say_nothing():
    assert parsed(b"event: x\nid: 7\nretry: 5\n\ndata: a\n\n\n\n") == ["a"]


@pytest.mark.parametrize("rest", [b"data: a", b"data: a\n", b"dat"], ids=["line", "event", "name"])
def test_half_an_event_at_the_end_is_told(rest):
    parser = SseParser()
    assert parser.feed(b"data: whole\n\n" + rest) == ["whole"]
    assert parser.finish()


def test_a_line_that_is_not_utf8_is_refused():
    with pytest.raises(UnicodeDecodeError):
        SseParser().feed(b"data: \xff\n\n")

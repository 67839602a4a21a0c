"""What is read from streams over real sockets: arrivals, counts, visible text (cases D1 to D7)."""

from __future__ import annotations

from itertools import combinations

import pytest

from specbench.core.trace import Counted, Finish, Granularity
from specbench.engines.http.dialects.vllm import DIALECT as VLLM
from tests.engines.fake_server import (
    DONE,
    PING,
    FakeServer,
    chat,
    cut_at,
    event,
    stream,
    text,
    usage,
    usage_only,
    whole,
)
from tests.engines.http.attached import decode, numbered, request


def one(answer, asked=None, dialect=None, **options):
    """The trace of one answer, and when the server wrote its parts."""
    with FakeServer(answer) as server:
        more = {} if dialect is None else {"dialect": dialect}
        (trace,) = decode(server, [asked or request()], **more, **options)
        return trace, [at_ns for at_ns, _ in server.writes[0]]


def stamped_after(trace, writes):
    """Every arrival lies behind the write that brought it, in order."""
    seen = trace.arrivals.t_ns
    return seen == sorted(seen) and all(a >= w for a, w in zip(seen, writes, strict=True))


def test_several_tokens_in_one_chunk():
    """D1."""
    counts = (1, 4, 7, 10)
    events = [chat(f" {n}", counted=usage(n, 5)) for n in counts]
    writes = [(0.02 * i, data) for i, data in enumerate(events)]
    trace, written = one(stream(*writes, (0.06, chat("", finish="stop")), (0.06, DONE)))
    assert trace.arrivals.tokens == [1, 3, 3, 3]
    assert trace.counted == Counted.CHUNK_USAGE
    assert trace.granularity == Granularity.CHUNK
    assert stamped_after(trace, written[:4])
    assert trace.start_ns <= trace.arrivals.t_ns[0]


def test_role_empty_and_usage_only_chunks():
    """D3: the first arrival is the first token's, the last one the last token's."""
    answer = stream(
        (0.00, chat("", role="assistant")),
        (0.03, chat("Hi")),
        (0.06, chat(" there")),
        (0.08, chat("", finish="stop")),
        (0.081, usage_only(2, 5)),
        (0.081, DONE),
    )
    trace, written = one(answer)
    assert (trace.finish, trace.text, trace.prompt_tokens) == (Finish.EOS, "Hi there", 5)
    assert trace.arrivals.tokens == [1, 1]
    assert trace.counted == Counted.USAGE
    assert stamped_after(trace, written[1:3])
    # the usage event came later and is no arrival
    assert len(written) == 6


def test_no_token_at_all_is_a_failure():
    """D3."""
    answer = stream((0, chat("", role="assistant")), (0, chat("", finish="stop")), (0, DONE))
    trace, _ = one(answer)
    assert trace.finish == Finish.ERROR
    assert "token" in trace.error
    assert len(trace.arrivals) == 0


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_tokens(name):
    """D4: counted from the first token on, visible from the first visible one."""
    parts = [chat(**{name: "a"}), chat(**{name: "b"}), chat("c", finish="stop")]
    writes = [(0.02 * i, data) for i, data in enumerate(parts)]
    trace, written = one(stream(*writes, (0.04, usage_only(3, 5)), (0.04, DONE)))
    assert trace.arrivals.tokens == [1, 1, 1]
    assert trace.first_visible_ns == trace.arrivals.t_ns[2]
    assert stamped_after(trace, written[:3])
    assert trace.text == "c"


def test_reasoning_that_is_cut_by_its_length():
    """D4: a success without a visible token."""
    parts = [chat(reasoning="a"), chat(reasoning="b", finish="length")]
    answer = stream(*((0.0, data) for data in parts), (0.0, usage_only(2, 5)), (0.0, DONE))
    trace, _ = one(answer)
    assert (trace.finish, trace.first_visible_ns) == (Finish.LENGTH, None)
    assert sum(trace.arrivals.tokens) == 2
    assert trace.ok


def test_tokens_without_any_count_are_estimated():
    """D5: no ids, no usage, no tokenizer: one token per chunk with text."""
    answer = stream((0, chat(" ")), (0, chat(" ")), (0, chat("", finish="stop")), (0, DONE))
    trace, _ = one(answer)
    assert (trace.arrivals.tokens, trace.counted) == ([1, 1], Counted.ESTIMATED)


def test_usage_beats_the_number_of_chunks():
    """D5: 15 single-space tokens, one per chunk."""
    parts = [chat(" ") for _ in range(15)]
    answer = stream(
        *((0.0, p) for p in parts),
        (0.0, chat("", finish="length")),
        (0.0, usage_only(15, 5)),
        (0.0, DONE),
    )
    trace, _ = one(answer)
    assert trace.arrivals.tokens == [1] * 15
    assert trace.counted == Counted.USAGE


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_stream_may_be_cut_anywhere(newline):
    """D7: at every offset, and at pairs of offsets; through sockets and chunked coding."""
    events = [event({"choices": [{"text": t}]}, newline) for t in (" hi", "日本")]
    end = DONE.replace(b"\n", newline.encode())
    data = events[0] + PING.replace(b"\n", newline.encode()) + events[1] + end
    singles = [(i,) for i in range(1, len(data))]
    pairs = list(combinations(range(1, len(data)), 2))[:: 41 if newline == "\n" else 211]
    answers = [cut_at(data, offsets, gap_s=0.001) for offsets in singles + pairs]
    with FakeServer(lambda got: answers[int(got.body["messages"][0]["content"])]) as server:
        asked = [request(n, str(n)) for n in range(len(answers))]
        traces = decode(server, asked, concurrency=8)
    assert {(trace.text, trace.error, len(trace.arrivals)) for trace in traces} == {
        (" hi日本", "", 2)
    }
    assert all(trace.ok for trace in traces)


def test_characters_split_over_tokens(words):
    """F6: ten tokens of which three complete a character; TTFT is the first token's."""
    shown = {2: "日", 5: "本", 9: "🎉"}
    parts = [text(shown.get(i, ""), token_ids=[i], counted=usage(i + 1, 2)) for i in range(10)]
    writes = [(0.01 * i, data) for i, data in enumerate(parts)]
    answer = stream(*writes, (0.09, text("", finish="length")), (0.09, DONE))
    trace, written = one(answer, request(ids=(5, 6)), VLLM, route="ids", tokenizer=words)
    assert trace.text == "日本🎉"
    assert trace.output_ids == list(range(10))
    assert trace.arrivals.tokens == [1] * 10
    assert stamped_after(trace, written[:10])


def test_a_server_that_does_not_stream():
    """One JSON document: everything is known at its end."""
    choice = {"message": {"role": "assistant", "content": "Hi there"}, "finish_reason": "stop"}
    trace, written = one(whole({"choices": [choice], "usage": usage(2, 5)}))
    assert (trace.text, trace.finish, trace.prompt_tokens) == ("Hi there", Finish.EOS, 5)
    assert trace.granularity == Granularity.REQUEST
    assert trace.arrivals.tokens == [2]
    assert stamped_after(trace, written)


def test_many_streams_do_not_mix():
    """Answers that name their request, read 16 at a time."""

    def script(got):
        number = got.body["messages"][0]["content"]
        parts = [chat(f" {number}") for _ in range(20)]
        return stream(
            *((0.002 * i, p) for i, p in enumerate(parts)),
            (0.04, chat("", finish="length")),
            (0.04, DONE),
        )

    with FakeServer(script) as server:
        asked = [request(n, str(n)) for n in range(64)]
        traces = decode(server, asked, concurrency=16)
        assert server.peak <= 16
    assert [trace.text for trace in traces] == [f" {n}" * 20 for n in range(64)]
    assert len({trace.key for trace in traces}) == len(numbered(64))

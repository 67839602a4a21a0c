"""At temperature 0: the tokens of the native engine, and counts that a hand simulation gives."""

from dataclasses import replace

import pytest

from specbench.core.request import Limits, Stops
from specbench.core.trace import Finish, ShortDraft, TickKind
from tests.engines.native_runs import requests, run
from tests.engines.transformers_assisted.runs import MAX_K, broken, perfect, steps_of

pytestmark = pytest.mark.usefixtures("one_thread")

DRAFTERS = ("self", "other", "ngram", "layer_skip")


@pytest.fixture(scope="module")
def asked():
    return requests(count=14, prompts=4)


@pytest.fixture(scope="module")
def native(engine, asked):
    return run(engine, "plain", asked, 1)


@pytest.mark.parametrize("drafter", ["plain", *DRAFTERS])
def test_every_draft_length_gives_the_native_tokens(assisted, asked, native, drafter):
    names = ["plain"] if drafter == "plain" else [f"{drafter}-{k}" for k in range(1, MAX_K + 1)]
    for name in names:
        for item, trace in run(assisted, name, asked, 1).items():
            expected = native[item]
            assert trace.output_ids == expected.output_ids, (name, item)
            assert (trace.text, trace.finish) == (expected.text, expected.finish)
            k = int(name.rpartition("-")[2]) if name != "plain" else 0
            assert broken(trace, k_max=k) == []


def test_plain_decoding_brings_one_token_per_step(assisted, asked):
    for trace in run(assisted, "plain", asked, 1).values():
        assert set(trace.arrivals.tokens) == {1}
        off = (0, 0, 0, 1, "", ShortDraft.OFF)
        assert steps_of(trace) == [off] * (len(trace.output_ids) - 1)


@pytest.mark.parametrize("k", range(1, MAX_K + 1))
def test_the_target_as_its_own_draft_is_always_right(assisted, asked, k):
    for request in asked:
        (trace,) = run(assisted, f"self-{k}", [request], 1).values()
        blocks = perfect(
            trace.output_ids, k, request.limits.max_new_tokens, request.stops.token_ids
        )
        assert trace.arrivals.tokens == [block[3] for block in blocks]
        assert steps_of(trace) == blocks[1:]


def test_speculation_configured_and_nothing_drafted(assisted, asked, native):
    for item, trace in run(assisted, "self-0", asked, 1).items():
        assert trace.output_ids == native[item].output_ids
        assert set(trace.steps.short_draft) <= {ShortDraft.OFF}
        assert sum(trace.steps.verified) == 0


def lookup(tokens, k, longest):
    """Prompt lookup as published: the longest suffix first, its earliest occurrence."""
    for n in range(min(longest, len(tokens) - 1), 0, -1):
        for at in range(len(tokens) - n):
            if tokens[at : at + n] == tokens[-n:]:
                return tokens[at + n : at + n + k]
    return []


def looked_up(prompt, output, k, cap):
    """Blocks of prompt lookup against a known output without end tokens."""
    blocks, done = [], 0
    while done < len(output):
        room = cap - done - 1
        drafted = lookup([*prompt, *output[:done]], k, 2) if room else []
        accepted = 0
        while (
            accepted < len(drafted)
            and drafted[accepted : accepted + 1] == (output[done + accepted : done + accepted + 1])
        ):
            accepted += 1
        committed = min(accepted + 1, cap - done)
        cut = committed < accepted + 1
        if len(drafted) >= k:
            short = ShortDraft.NONE
        elif len(drafted) >= room:
            short = ShortDraft.LIMIT
        else:
            short = ShortDraft.DRAFTER_STOPPED if drafted else ShortDraft.NO_MATCH
        judged = committed if cut else len(drafted)
        blocks.append((len(drafted), judged, accepted, committed, "length" if cut else "", short))
        done += committed
    return blocks


@pytest.mark.parametrize("k", [1, 3, MAX_K])
@pytest.mark.parametrize("prompt", [(9,) * 8, (5, 6, 7, 5, 6), (11, 12, 13)])
def test_prompt_lookup_counts_what_its_definition_gives(assisted, k, prompt):
    (asked,) = requests(count=24, prompts=1, stops=Stops(()))
    asked = replace(asked, token_ids=prompt, limits=Limits(24))
    (plain,) = run(assisted, "plain", [asked], 1).values()
    (trace,) = run(assisted, f"ngram-{k}", [asked], 1).values()
    blocks = looked_up(list(prompt), plain.output_ids, k, 24)
    assert trace.arrivals.tokens == [block[3] for block in blocks]
    assert steps_of(trace) == blocks[1:]
    # What is looked up depends on the output, which is only interesting where it repeats itself.
    assert sum(trace.steps.verified) > 0


@pytest.mark.parametrize(
    ("drafter", "k"), [*(("self", k) for k in range(1, MAX_K + 1)), ("layer_skip", 3)]
)
def test_a1_an_end_inside_a_run_ends_the_output_there(assisted, drafter, k):
    (free,) = requests(count=16, prompts=1, stops=Stops(()))
    (whole,) = run(assisted, "plain", [free], 1).values()
    output = whole.output_ids
    places = [i for i, token in enumerate(output) if token not in output[:i]]
    assert set(range(2 * k + 2)) & set(places)
    for place in places:
        (asked,) = requests(count=16, prompts=1, stops=Stops((output[place],)))
        (trace,) = run(assisted, f"{drafter}-{k}", [asked], 1).values()
        assert trace.output_ids == output[: place + 1]
        assert trace.finish is Finish.EOS
        assert broken(trace, k_max=k) == []
        if drafter == "self":
            blocks = perfect(trace.output_ids, k, 16, (output[place],))
            assert [trace.arrivals.tokens[0], *steps_of(trace)] == [blocks[0][3], *blocks[1:]]


def test_ticks_say_where_the_time_of_each_step_went(assisted, asked):
    (trace,) = (t for t in assisted.run("self-2", asked[:1], 1))
    ticks = assisted.drain_ticks()
    assert [t.kind for t in ticks] == [
        TickKind.PREFILL,
        *[TickKind.DECODE] * (len(ticks) - 1),
    ]
    assert [t.index for t in ticks[1:]] == trace.steps.tick
    assert ticks[0].tokens == trace.prompt_tokens + 2
    assert [t.tokens for t in ticks[1:]] == [1 + n for n in trace.steps.verified]
    assert [[s.phase for s in t.spans] for t in ticks[:2]] == [
        ["draft", "prefill", "commit"],
        ["draft", "verify", "commit"],
    ]
    for tick, t_ns in zip(ticks, trace.arrivals.t_ns, strict=True):
        assert tick.start_ns <= t_ns <= tick.end_ns
    assert trace.start_ns <= ticks[0].end_ns

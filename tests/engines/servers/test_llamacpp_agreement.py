"""llama.cpp on float32 weights against the native engine: same text, same acceptance.

Two engines that share no code decode with the same numbers. What must agree: greedy text up to
ties; drafted and kept tokens where the target drafts for itself, and where both n-gram drafters
propose the same. The n-gram drafters are close, not equal: llama.cpp's ``ngram-simple`` wants
n + K + 3 tokens, leaves out the first position, and drafts up to, not with, the newest token. Each
is held against its own description (``lookups.py``), and the two against each other where the
descriptions say the same.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("xllamacpp")

from specbench.core.arm import ArmSpec
from specbench.core.request import Limits, Request, RequestKey, Sampling
from specbench.fidelity.greedy import Kind, compare_traces, summarise
from specbench.models.gguf_write import export
from specbench.models.locate import DEMO_MODEL, locate
from specbench.suites.loader import load_suite
from specbench.suites.templates import messages_for_turn
from tests.engines.servers.llamacpp_runs import ONE_THREAD, complete, drafted, serve
from tests.engines.servers.lookups import decode, ours, simple

COUNT = 40
LOOKUPS = [(1, 3), (2, 4), (3, 5)]
"""Tokens looked up, K."""


def ngram(n, k):
    options = {"min_n": n, "max_n": n}
    return ArmSpec(f"ngram-{n}", "ngram", k, "target_match", drafter_options=options)


@pytest.fixture(scope="module")
def native(tiny_target):
    from specbench.engines.native import open_engine

    alone = {"model": str(tiny_target)}
    arms = [ArmSpec("plain"), ArmSpec("self", "draft_model", 3, drafter_options=alone)]
    arms += [ngram(n, k) for n, k in LOOKUPS]
    opened = open_engine({"model": str(tiny_target)}, arms)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def asked(native):
    return [
        Request(
            RequestKey("tiny", f"item-{i}", 0, 0.0, 0),
            tuple((7 * i + 5 * j * (i % 3)) % 200 + 3 for j in range(4 + 3 * (i % 4))),
            Sampling(0.0),
            Limits(COUNT),
            native.stops(),
        )
        for i in range(48)
    ]


@pytest.fixture(scope="module")
def plain(native, asked):
    traces = {t.key: t.output_ids for t in native.run("plain", asked, 8)}
    return [list(traces[request.key]) for request in asked]


def steps_of(native, arm, asked):
    steps = {t.key: t.steps for t in native.run(arm, asked, 8)}
    return [steps[request.key] for request in asked]


def of_llamacpp(arm, gguf, asked, **more):
    with serve(replace(arm, server=ONE_THREAD), gguf, context=128) as running:
        return [complete(running.url, r.token_ids, COUNT, **more) for r in asked]


def texts(answers):
    return [a["tokens"] for a in answers]


def self_draft(gguf, rule):
    return ArmSpec("self", "draft_model", 3, rule, drafter_options={"model": str(gguf)})


def test_greedy_text_is_the_same(asked, plain, tiny_gguf_file):
    assert texts(of_llamacpp(ArmSpec("plain"), tiny_gguf_file, asked)) == plain


def always_kept(answers):
    """Whether every draft was kept; one that an end token cut short does not count."""
    counts = drafted([a for a in answers if a["stop_type"] == "limit"])
    assert len(counts) > len(answers) / 2
    return all(kept == drafts > 0 for drafts, kept in counts)


@pytest.mark.parametrize("rule", ["target_match", "rejection"])
def test_the_target_as_its_own_draft_is_always_right(native, asked, plain, tiny_gguf_file, rule):
    answers = of_llamacpp(self_draft(tiny_gguf_file, rule), tiny_gguf_file, asked)
    assert texts(answers) == plain
    assert always_kept(answers)
    expected = []
    for steps in steps_of(native, "self", asked):
        # An end token that was a draft is kept for us; llama.cpp leaves it out.
        ended = steps.committed[-1:] == steps.accepted[-1:]
        expected.append((sum(steps.verified), sum(steps.accepted) - ended))
    assert drafted(answers) == expected


def test_its_own_draft_is_always_right_when_sampled_too(asked, tiny_gguf_file):
    # Rejection sampling accepts with chance min(1, target / draft), and the two are equal: a draft
    # that samples draws from its ten most likely tokens, whatever the request says.
    sampling = {"temperature": 1.0, "top_k": 10, "seed": 3}
    arm = self_draft(tiny_gguf_file, "rejection")
    assert always_kept(of_llamacpp(arm, tiny_gguf_file, asked[:16], **sampling))
    # A draft's argmax is compared with a draw from the target: that does fail.
    arm = self_draft(tiny_gguf_file, "target_match")
    counts = drafted(of_llamacpp(arm, tiny_gguf_file, asked[:16], **sampling))
    assert 0 < sum(kept for _, kept in counts) < sum(drafts for drafts, _ in counts)


@pytest.mark.parametrize(("n", "k"), LOOKUPS)
def test_ngram_drafts_are_kept_as_their_descriptions_say(
    native, asked, plain, tiny_gguf_file, n, k
):
    arm = ngram(n, k)
    mine = [(sum(s.verified), sum(s.accepted)) for s in steps_of(native, arm.name, asked)]
    answers = of_llamacpp(arm, tiny_gguf_file, asked)
    theirs = drafted(answers)
    assert texts(answers) == plain
    alike = 0
    for request, output, own, other in zip(asked, plain, mine, theirs, strict=True):
        prompt = list(request.token_ids)
        first = decode(prompt, output, COUNT, ours, n, k)
        second = decode(prompt, output, COUNT, simple, n, k, whole_first=True)
        assert own == counted(first)
        assert other == counted(second)
        if first == second:
            assert own == other
            alike += own[0] > 0
    print(f"n = {n}, K = {k}: {alike} of {len(asked)} requests draft the same tokens in both")
    assert alike >= 3


def counted(steps):
    return sum(len(draft) for draft, _ in steps), sum(kept for _, kept in steps)


NEW_TOKENS, PER_SUITE, LONGEST = 14, 2, 90
TIE = 0.02
"""Largest top-2 margin, in nats, that the rounding of two float32 engines may flip."""


@pytest.mark.model
def test_the_demo_model_says_the_same_up_to_ties(tmp_path):
    from specbench.engines.native import open_engine

    gguf = export(locate(DEMO_MODEL), tmp_path / "demo.gguf")
    native = open_engine({"model": DEMO_MODEL, "dtype": "float32"}, [ArmSpec("plain")])
    asked = [
        Request(
            RequestKey(suite, prompt.id, 0, 0.0, 0),
            tuple(native.render(messages_for_turn(prompt, 0, ())).token_ids),
            Sampling(0.0),
            Limits(NEW_TOKENS),
            native.stops(),
        )
        for suite in ("code", "chat", "translation")
        for prompt in load_suite(suite).prompts
    ]
    short = [r for r in asked if len(r.token_ids) < LONGEST]
    by_suite = {r.key.suite: [s for s in short if s.key.suite == r.key.suite] for r in short}
    asked = [request for few in by_suite.values() for request in few[:PER_SUITE]]
    assert len(asked) == 3 * PER_SUITE
    reference = {t.key: t for t in native.run("plain", asked, 3)}
    native.close()
    with serve(replace(self_draft(gguf, "target_match"), server=ONE_THREAD), gguf) as running:
        answers = [complete(running.url, r.token_ids, NEW_TOKENS) for r in asked]
    verdicts = {}
    for request, ids in zip(asked, texts(answers), strict=True):
        trace = reference[request.key]
        name = f"{request.key.suite}/{request.key.item}"
        verdicts[name] = compare_traces(trace, replace(trace, output_ids=ids), TIE)
    summary = summarise(verdicts)
    print(summary)
    assert summary.passed, str(summary)
    assert len(summary.named(Kind.TIE)) <= 2
    counts = drafted(answers)
    # Up to ties: one row and four rows of the same tokens differ by rounding.
    assert sum(kept for _, kept in counts) >= 0.97 * sum(drafts for drafts, _ in counts) > 0

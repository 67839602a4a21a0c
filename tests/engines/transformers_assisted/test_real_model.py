"""SmolLM2-135M in fp32 at temperature 0: the native engine's tokens up to ties."""

import pytest

from specbench.core.arm import ArmSpec
from specbench.core.request import Limits, Request, RequestKey, Sampling
from specbench.core.trace import Finish
from specbench.fidelity.greedy import Kind, compare_traces, summarise
from specbench.models.locate import DEMO_MODEL
from specbench.suites.loader import load_suite
from specbench.suites.templates import messages_for_turn
from tests.engines.transformers_assisted.runs import arm, broken, perfect

pytestmark = pytest.mark.model

TOKENS, K = 12, 3


@pytest.fixture(scope="module")
def native():
    from specbench.engines.native import open_engine

    own = ArmSpec("own", "draft_model", K, drafter_options={"model": DEMO_MODEL})
    opened = open_engine({"model": DEMO_MODEL, "dtype": "float32"}, [ArmSpec("plain"), own])
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def assisted():
    from specbench.engines.transformers_assisted.engine import open_engine

    arms = [arm("plain"), arm("own", "draft_model", K, model=DEMO_MODEL), arm("ngram", "ngram", K)]
    opened = open_engine({"model": DEMO_MODEL, "dtype": "float32"}, arms)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def asked(native):
    """The shortest prompt of each suite."""
    found = []
    for suite in ("code", "chat", "translation"):
        rendered = [
            (p.id, native.render(messages_for_turn(p, 0, ())).token_ids)
            for p in load_suite(suite).prompts[:20]
        ]
        item, ids = min(rendered, key=lambda pair: len(pair[1]))
        found.append(
            Request(
                RequestKey(suite, item, 0, 0.0, 0),
                ids,
                Sampling(0.0),
                Limits(TOKENS, context=native.context_limit),
                native.stops(),
                seed=1,
            )
        )
    return found


@pytest.fixture(scope="module")
def plain(native, asked):
    return {t.key: t for t in native.run("plain", asked, 1)}


def test_prompts_and_ends_are_the_native_ones(native, assisted):
    messages = [{"role": "user", "content": "hello"}]
    assert assisted.render(messages) == native.render(messages)
    assert assisted.stops(("x",)) == native.stops(("x",))
    assert assisted.context_limit == native.context_limit
    facts, theirs = assisted.describe()["target"], native.describe()["target"]
    assert facts == theirs


@pytest.fixture(scope="module")
def theirs(assisted, asked):
    """Traces of every arm of the library's own engine."""
    return {
        name: {t.key: t for t in assisted.run(name, asked, 1)} for name in ("plain", "own", "ngram")
    }


@pytest.mark.parametrize("name", ["plain", "own", "ngram"])
def test_outputs_equal_the_native_ones_or_tie(native, theirs, plain, name):
    traces = theirs[name]
    assert all(broken(t, k_max=K) == [] for t in traces.values())
    summary = summarise(
        {
            key.suite: compare_traces(plain[key], trace, native.tie_tolerance)
            for key, trace in traces.items()
        }
    )
    assert summary.passed, str(summary)
    assert len(summary.named(Kind.TIE)) <= 1


def test_the_target_as_its_own_draft_accepts_what_the_native_engine_accepts(native, theirs, asked):
    ours = {t.key: t for t in native.run("own", asked, 1)}
    compared = 0
    for key, trace in theirs["own"].items():
        assert trace.output_ids == ours[key].output_ids
        if trace.finish is Finish.LENGTH:
            # Both are always right; the library's first block comes with the prefill.
            blocks = perfect(trace.output_ids, K, TOKENS)
            behind = perfect(trace.output_ids[1:], K, TOKENS - 1)
            assert trace.steps.accepted == [block[2] for block in blocks[1:]]
            assert ours[key].steps.accepted == [block[2] for block in behind]
            compared += 1
    assert compared

"""SmolLM2-135M in fp32 at temperature 0: every drafter repeats plain, and plain transformers."""

from dataclasses import replace

import pytest

from specbench.core.arm import ArmSpec
from specbench.core.request import Limits, Request, RequestKey, Sampling
from specbench.fidelity.greedy import Kind, compare_traces, summarise
from specbench.metrics.identities import violations
from specbench.models.locate import DEMO_MODEL
from specbench.suites.loader import load_suite
from specbench.suites.templates import messages_for_turn

pytestmark = pytest.mark.model

NEW_TOKENS, PER_SUITE, LONGEST = 12, 4, 120
ARMS = [
    ArmSpec("plain"),
    ArmSpec("ngram", "ngram", 5),
    ArmSpec("layer_skip", "layer_skip", 3, drafter_options={"layers": 10}),
    ArmSpec("draft_model", "draft_model", 3, drafter_options={"model": DEMO_MODEL}),
]


@pytest.fixture(scope="module")
def real():
    """The engine, loaded once."""
    from specbench.engines.native import open_engine

    opened = open_engine({"model": DEMO_MODEL, "dtype": "float32"}, ARMS)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def asked(real):
    """Prompts of each suite below a length, from the shortest to the longest."""
    found = []
    for suite in ("code", "chat", "translation"):
        prompts = load_suite(suite).prompts
        rendered = [(p, real.render(messages_for_turn(p, 0, ())).token_ids) for p in prompts]
        rendered = sorted(
            (pair for pair in rendered if len(pair[1]) < LONGEST), key=lambda pair: len(pair[1])
        )
        found += [
            Request(
                RequestKey(suite, prompt.id, 0, 0.0, 0),
                tuple(ids),
                Sampling(0.0),
                Limits(NEW_TOKENS, context=real.context_limit),
                real.stops(),
                seed=1,
            )
            for prompt, ids in rendered[:: len(rendered) // PER_SUITE][:PER_SUITE]
        ]
    # Neighbours in a batch come from different suites and have different lengths.
    return sorted(found, key=lambda r: (found.index(r) % PER_SUITE, r.key.suite))


@pytest.fixture(scope="module")
def plain(real, asked):
    """Plain decoding, one request at a time."""
    return {t.key: t for t in real.run("plain", asked, 1)}


def judged(reference, others, tolerance):
    verdicts = {
        f"{key.suite}/{key.item}": compare_traces(reference[key], others[key], tolerance)
        for key in reference
    }
    return summarise(verdicts)


def test_the_prompts_are_many_and_mixed(asked):
    lengths = [len(r.token_ids) for r in asked]
    assert len(asked) == 3 * PER_SUITE
    assert {r.key.suite for r in asked} == {"code", "chat", "translation"}
    assert max(lengths) > 2 * min(lengths)


def test_plain_equals_greedy_generation_of_transformers(real, asked, plain):
    import torch

    from specbench.models.load import load_model
    from specbench.models.locate import locate

    loaded = load_model(locate(DEMO_MODEL), dtype="float32")
    outputs = {}
    for request in asked:
        ids = torch.tensor([request.token_ids])
        whole = loaded.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=NEW_TOKENS,
            eos_token_id=list(request.stops.token_ids),
            pad_token_id=0,
        )
        outputs[request.key] = whole[0, ids.shape[1] :].tolist()
    generated = {key: replace(plain[key], output_ids=ids) for key, ids in outputs.items()}
    summary = judged(plain, generated, real.tie_tolerance)
    assert summary.passed, str(summary)


@pytest.mark.parametrize(
    ("arm", "concurrency"),
    # Plain at concurrency 1 is the reference itself.
    [("plain", 8), *((arm.name, c) for arm in ARMS[1:] for c in (1, 8))],
)
def test_outputs_equal_plain_or_tie(real, asked, plain, arm, concurrency):
    traces = {t.key: t for t in real.run(arm, asked, concurrency)}
    for trace in traces.values():
        assert violations(trace) == []
    summary = judged(plain, traces, real.tie_tolerance)
    print(f"{arm} at concurrency {concurrency}: {summary}")
    assert summary.passed, str(summary)
    assert len(summary.named(Kind.TIE)) <= 2
    if arm == "draft_model":
        # The target as its own draft is always right, up to ties.
        accepted = sum(sum(t.steps.accepted) for t in traces.values())
        assert accepted >= 0.98 * sum(sum(t.steps.judged) for t in traces.values())


def test_the_tie_tolerance_is_rounding_not_slack(real):
    assert 0 < real.tie_tolerance < 0.01

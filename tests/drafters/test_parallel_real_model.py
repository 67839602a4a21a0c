"""SmolLM2-135M with untrained parallel heads from files, and suffix decoding: output as plain's."""

import pytest

from specbench.core.arm import ArmSpec
from specbench.core.request import Limits, Request, RequestKey, Sampling
from specbench.fidelity.greedy import compare_traces, summarise
from specbench.metrics.identities import violations
from specbench.models.locate import DEMO_MODEL, locate
from specbench.suites.loader import load_suite
from specbench.suites.templates import messages_for_turn

pytestmark = pytest.mark.model

K, NEW_TOKENS, PER_SUITE = 4, 8, 2
REPEATING = 16
"""Tokens of the request that repeats: enough to accept whole drafts of suffix decoding."""
REPEATED = "The sun rose over the green hills and the birds began to sing. " * 4


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The engine with an arm per drafter."""
    from specbench.engines.native import open_engine
    from specbench.models.heads.new import new_head
    from specbench.models.heads.write import write_head

    folder = tmp_path_factory.mktemp("heads") / "medusa"
    # Blocks alone: the projection is the target's, so that nothing large is written.
    checkpoint, layout = new_head(locate(DEMO_MODEL), "medusa", layout="v2", heads=5)
    model = str(write_head(checkpoint, folder, layout))
    heads = {"model": model}
    arms = [
        ArmSpec("plain"),
        ArmSpec("medusa", "medusa", K, rule="multi_round", drafter_options=heads),
        ArmSpec("tree", "medusa", K, rule="traversal", drafter_options={**heads, "tree": "3x2x1"}),
        ArmSpec("chain", "medusa", K, drafter_options={**heads, "tree": "chain"}),
        ArmSpec(
            "blockwise",
            "blockwise",
            K,
            rule="blockwise",
            drafter_options=heads,
            rule_options={"top_k": 1},
        ),
        ArmSpec("suffix", "suffix", K),
        ArmSpec("answers", "suffix", K, drafter_options={"scope": "answers"}),
    ]
    opened = open_engine({"model": DEMO_MODEL, "dtype": "float32"}, arms)
    yield opened
    opened.close()


def request_of(real, ids, suite, item, count=NEW_TOKENS):
    return Request(
        RequestKey(suite, item, 0, 0.0, 0),
        tuple(ids),
        Sampling(0.0),
        Limits(count, context=real.context_limit),
        real.stops(),
        seed=1,
    )


@pytest.fixture(scope="module")
def asked(real):
    """The shortest prompts of each suite, and one that asks for repetition."""
    found = []
    for suite in ("code", "chat"):
        prompts = load_suite(suite).prompts
        lines = [(p.id, real.render(messages_for_turn(p, 0, ())).token_ids) for p in prompts]
        shortest = sorted(lines, key=lambda pair: len(pair[1]))[:PER_SUITE]
        found += [request_of(real, ids, suite, name) for name, ids in shortest]
    ids = real._loaded.tokenizer(REPEATED)["input_ids"]
    return [*found, request_of(real, ids, "list", "repeated", REPEATING)]


@pytest.fixture(scope="module")
def plain(real, asked):
    return {t.key: t for t in real.run("plain", asked, 1)}


@pytest.mark.parametrize(
    ("arm", "nodes", "requests"),
    [
        # A published tree is much for a CPU: one request is enough.
        ("medusa", 63, slice(1)),
        ("tree", 3 + 6 + 6, slice(None)),
        ("chain", K, slice(None)),
        ("blockwise", K, slice(None)),
        ("suffix", K, slice(None)),
        ("answers", K, slice(None)),
    ],
)
def test_output_is_plains(real, asked, plain, arm, nodes, requests):
    found = {t.key: t for t in real.run(arm, asked[requests], 3)}
    verdicts = {
        f"{key.suite}/{key.item}": compare_traces(plain[key], trace, real.tie_tolerance)
        for key, trace in found.items()
    }
    summary = summarise(verdicts)
    assert summary.passed, str(summary)
    assert summary.identical >= len(found) - 1, str(summary)
    for trace in found.values():
        assert violations(trace, k_max=K) == []
        assert max(trace.steps.verified) <= nodes
    if arm not in ("suffix", "answers"):
        assert {max(trace.steps.verified) for trace in found.values()} == {nodes}


def test_suffix_decoding_finds_repetitions(real, asked, plain):
    (trace,) = real.run("suffix", asked[-1:], 1)
    # It repeats the sentence: nearly every step keeps the whole draft.
    assert trace.output_ids == plain[trace.key].output_ids
    assert sum(trace.steps.accepted) >= 10


def test_what_was_loaded_is_recorded(real):
    drafts = real.describe()["drafts"]
    (heads,) = drafts["medusa"]
    assert (heads["family"], heads["layout"]) == ("medusa", "v2")
    assert heads["head"]["heads"] == 5
    # Five heads of 576 x 576 and 576 float32; the projection is the target's.
    assert real.memory("medusa").draft_weights == 4 * 5 * (576 * 576 + 576)
    assert real.memory("medusa").draft_kv_per_token == 0
    assert "suffix" not in drafts

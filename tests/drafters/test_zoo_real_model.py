"""The heads that ship, on the model they were made for: they guess, and the output is plain's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from specbench.core.arm import ArmSpec
from specbench.core.request import Limits, Request, RequestKey, Sampling
from specbench.core.trace import Trace
from specbench.fidelity.greedy import compare_traces, summarise
from specbench.metrics.identities import violations
from specbench.models.locate import DEMO_MODEL
from specbench.models.zoo import PREFIX, zoo_names

pytestmark = pytest.mark.model

NEW_TOKENS = 24
QUESTIONS = (
    "Write a Python function that returns the factorial of a number.",
    "What is the capital of Italy?",
)
ARMS = {
    "bigram": ("smollm2-135m-bigram", 3, "rejection", {}),
    "mtp": ("smollm2-135m-mtp", 3, "rejection", {"dtype": "bfloat16"}),
    "eagle3": (
        "smollm2-135m-eagle3",
        4,
        "multi_round",
        {"dtype": "bfloat16", "nodes": 16, "top_k": 4},
    ),
    "medusa": (
        "smollm2-135m-medusa",
        2,
        "multi_round",
        {"dtype": "bfloat16", "tree": [[0], [1], [0, 0]]},
    ),
}


@pytest.fixture(scope="module")
def found() -> Iterator[tuple[dict[str, list[Trace]], dict[str, object]]]:
    """Arm -> traces of all questions, the rounding error of the target, and what was recorded."""
    from specbench.engines.native import open_engine

    arms = [
        ArmSpec(name, name, k, rule, drafter_options={"model": PREFIX + head, **options})
        for name, (head, k, rule, options) in ARMS.items()
    ]
    opened = open_engine({"model": DEMO_MODEL, "dtype": "float32"}, [ArmSpec("plain"), *arms])
    asked = [
        Request(
            RequestKey("real", question, 0, 0.0, 0),
            tuple(opened.render([{"role": "user", "content": question}]).token_ids),
            Sampling(0.0),
            Limits(NEW_TOKENS, context=opened.context_limit),
            opened.stops(),
            seed=1,
        )
        for question in QUESTIONS
    ]
    traces = {name: list(opened.run(name, asked, 1)) for name in ("plain", *ARMS)}
    yield traces, {"tolerance": opened.tie_tolerance, "drafts": opened.describe()["drafts"]}
    opened.close()


def test_every_head_that_ships_is_run_here():
    assert sorted(head for head, *_ in ARMS.values()) == zoo_names()


@pytest.mark.parametrize("arm", ARMS)
def test_the_output_is_plains(found, arm):
    traces, facts = found
    plain = {trace.key: trace for trace in traces["plain"]}
    for trace in traces[arm]:
        assert trace.ok, trace.error
        assert violations(trace) == []
    verdicts = {
        t.key.item: compare_traces(plain[t.key], t, facts["tolerance"]) for t in traces[arm]
    }
    assert summarise(verdicts).passed, str(summarise(verdicts))


@pytest.mark.parametrize("arm", ["mtp", "eagle3"])
def test_heads_beat_counted_bigrams(found, arm):
    traces, _ = found

    def accepted(name):
        steps = [trace.steps for trace in traces[name]]
        return sum(sum(s.accepted) for s in steps) / sum(len(s.accepted) for s in steps)

    # About 1 of 3 and more were measured, against 0.3 of the table.
    assert accepted(arm) > max(0.5, accepted("bigram"))


def test_they_were_made_for_these_weights(found):
    _, facts = found
    for name, (draft,) in facts["drafts"].items():
        assert not [oddity for oddity in draft["oddities"] if "made for" in oddity], name
        assert draft["name"] == PREFIX + ARMS[name][0]

"""EAGLE heads and an MTP layer without training on SmolLM2: the output is plain's, or a listed tie.

The heads are written to folders in published layouts and read from there, as anybody's are.
"""

import pytest

from specbench.core.arm import ArmSpec
from specbench.core.request import Limits, Request, RequestKey, Sampling
from specbench.fidelity.greedy import Kind, compare_traces, summarise
from specbench.metrics.identities import violations
from specbench.models.locate import DEMO_MODEL, locate

pytestmark = pytest.mark.model

NEW_TOKENS = 8
QUESTIONS = (
    "Name three rivers in France.",
    "Write a Python function that reverses a list.",
    "What is the capital of Italy?",
)
FAMILIES = {
    "eagle1": ("eagle1", {}),
    "eagle2": ("eagle1", {}),
    "eagle3": ("eagle3", {"draft_vocabulary": 20000}),
    "mtp": ("mtp", {}),
}
ARMS = {
    "eagle1": ("eagle1", 5, {}),
    "eagle1-chain": ("eagle1", 3, {"tree": "chain"}),
    "eagle2": ("eagle2", 4, {"nodes": 24, "top_k": 6}),
    "eagle3": ("eagle3", 4, {"nodes": 24, "top_k": 6}),
    "eagle3-chain": ("eagle3", 3, {"tree": "chain"}),
    "mtp": ("mtp", 3, {}),
    "mtp-one": ("mtp", 1, {}),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Drafter -> the folder of an untrained head."""
    from specbench.models.heads.new import new_head
    from specbench.models.heads.write import write_head

    made = {}
    for drafter, (family, options) in FAMILIES.items():
        head, layout = new_head(locate(DEMO_MODEL), family, seed=1, **options)
        folder = tmp_path_factory.mktemp("heads") / drafter
        made[drafter] = str(write_head(head, folder, layout))
    return made


@pytest.fixture(scope="module")
def real(folders):
    """The engine with every arm, loaded once."""
    from specbench.engines.native import open_engine

    arms = [
        ArmSpec(
            name,
            drafter,
            k,
            "rejection" if options.get("tree", drafter) in ("chain", "mtp") else "multi_round",
            drafter_options={"model": folders[drafter], **options},
        )
        for name, (drafter, k, options) in ARMS.items()
    ]
    opened = open_engine({"model": DEMO_MODEL, "dtype": "float32"}, [ArmSpec("plain"), *arms])
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def asked(real):
    return [
        Request(
            RequestKey("real", question, 0, 0.0, 0),
            tuple(real.render([{"role": "user", "content": question}]).token_ids),
            Sampling(0.0),
            Limits(NEW_TOKENS, context=real.context_limit),
            real.stops(),
            seed=1,
        )
        for question in QUESTIONS
    ]


@pytest.fixture(scope="module")
def plain(real, asked):
    return {trace.key: trace for trace in real.run("plain", asked, 1)}


@pytest.mark.parametrize("arm", ARMS)
def test_outputs_equal_plain_or_tie(real, asked, plain, arm):
    traces = {trace.key: trace for trace in real.run(arm, asked, len(asked))}
    for trace in traces.values():
        assert trace.ok, trace.error
        assert violations(trace) == []
        assert sum(trace.steps.verified) > 0
    verdicts = {
        key.item: compare_traces(plain[key], traces[key], real.tie_tolerance) for key in plain
    }
    summary = summarise(verdicts)
    accepted = sum(sum(trace.steps.accepted) for trace in traces.values())
    print(f"{arm}: {summary}, {accepted} accepted")
    assert summary.passed, str(summary)
    assert len(summary.named(Kind.TIE)) <= 1


def test_what_is_recorded_names_every_switch(real):
    drafts = real.describe()["drafts"]
    assert drafts.keys() == ARMS.keys()
    for name, (facts,) in drafts.items():
        family = FAMILIES[ARMS[name][0]][0]
        assert facts["family"] == family
        assert facts["head"]["recycle"] in ("pre_norm", "post_norm")
        assert facts["weight_hash"]
        assert real.memory(name).draft_weights > 0

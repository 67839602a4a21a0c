"""Arms with trees and with several drafts on the native engine: built by options, as plain."""

import pytest

from specbench import catalog
from specbench.core.arm import ArmSpec
from specbench.engines.native import open_engine
from specbench.errors import UsageError
from specbench.metrics.identities import violations
from tests.drafters.rebuilt import close_to
from tests.engines.native_runs import requests, run
from tests.models.families import build
from tests.models.tiny import byte_level_tokens, write_tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")

K = 3
TREES = {
    "chain": {},
    "2x2x1": {"tree": "2x2x1"},
    "eagle": {"tree": "eagle_25", "sampling": "greedy"},
    "dynamic": {"tree": "dynamic", "nodes": 16, "top_k": 4},
}
SEVERAL = {"sampled": {}, "greedy": {"sampling": "greedy"}}
ARMS = [*TREES, *SEVERAL]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two models with one tokenizer; the second is the first with a little noise."""
    base = tmp_path_factory.mktemp("several")
    sizes = {"vocab_size": len(byte_level_tokens()), "num_hidden_layers": 2}
    for name in ("target", "near"):
        model = build("llama", **sizes, eos_token_id=0, bos_token_id=1, pad_token_id=0)
        (close_to(model) if name == "near" else model).save_pretrained(base / name)
        write_tokenizer(base / name)
    return str(base / "target"), str(base / "near")


@pytest.fixture(scope="module")
def engine(folders):
    target, near = folders
    patch = pytest.MonkeyPatch()
    several = "specbench.drafters.multi_draft:MultiDraftDrafter"
    patch.setitem(catalog.DRAFTERS, "multi_draft", several)
    arms = [ArmSpec("plain")]
    arms += [
        ArmSpec(name, "draft_model", K, "multi_round", drafter_options={"model": near, **options})
        for name, options in TREES.items()
    ]
    arms += [
        ArmSpec(
            name,
            "multi_draft",
            K,
            "multi_round",
            drafter_options={"models": [near, target, near], **options},
        )
        for name, options in SEVERAL.items()
    ]
    opened = open_engine({"model": target}, arms)
    yield opened
    opened.close()
    patch.undo()


@pytest.mark.parametrize("arm", ARMS)
def test_output_at_temperature_zero_is_plains(engine, arm):
    asked = requests()
    plain, other = run(engine, "plain", asked, 3), run(engine, arm, asked, 3)
    for item, trace in other.items():
        assert violations(trace, k_max=K) == []
        assert trace.output_ids == plain[item].output_ids
    accepted = [a for trace in other.values() for a in trace.steps.accepted]
    assert {0, K} <= set(accepted) or max(accepted) == K


@pytest.mark.parametrize("arm", ARMS)
def test_each_request_equals_its_own_batch_of_one_at_a_temperature(engine, arm):
    asked = requests(0.8)
    alone = {one.key.item: run(engine, arm, [one], 1)[one.key.item] for one in asked}
    for item, trace in run(engine, arm, asked, 4).items():
        assert trace.output_ids == alone[item].output_ids
        assert trace.steps.accepted == alone[item].steps.accepted
        assert trace.steps.verified == alone[item].steps.verified


def test_every_draft_is_loaded_counted_and_named(engine):
    drafts = engine.describe()["drafts"]
    assert [len(drafts[arm]) for arm in ARMS] == [1, 1, 1, 1, 3, 3]
    one, three = engine.memory("chain"), engine.memory("sampled")
    assert three.draft_weights == 3 * one.draft_weights
    assert three.draft_kv_per_token == 3 * one.draft_kv_per_token
    owners = [model.owner for model in engine._contexts["sampled"].models]
    assert len(set(owners)) == 3


def test_a_bad_tree_is_refused_before_the_draft_is_loaded(folders):
    arm = ArmSpec("a", "draft_model", K, drafter_options={"model": "nowhere", "tree": "2y2"})
    with pytest.raises(UsageError, match="arm a: tree = '2y2'"):
        open_engine({"model": folders[0]}, [arm])

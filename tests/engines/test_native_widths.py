"""Rows that the target verifies and that drafts feed are checked as wide as they get, no wider."""

import pytest

from specbench.core.arm import ArmSpec
from specbench.engines.native import open_engine
from specbench.errors import PrerequisiteError
from specbench.models import selfcheck
from specbench.models.packed import PackedModel
from tests.engines.native_runs import requests, run
from tests.models.families import build
from tests.models.tiny import byte_level_tokens, write_tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")

K = 3
CASES = {
    # The refill: an accepted leaf and the token behind it.
    "chain": ("draft_model", {}, K + 1, 2),
    # Depths of 2, 4 and 8 nodes are verified; leaves are not processed.
    "2x2x2": ("draft_model", {"tree": "2x2x2"}, 2 + 4 + 8 + 1, 4),
    # Room for 5 + 5 processed nodes, 6 of 55 candidates are kept.
    "dynamic": ("draft_model", {"tree": "dynamic", "nodes": 6, "top_k": 5}, 6 + 1, 5),
    # Two chains; a model that drafted nothing of the path feeds all of it, and one token more.
    "several": ("multi_draft", {}, 2 * K + 1, K + 1),
}


def folder_of(path, family="llama", seed=0, **changes):
    """A model with the tiny target's tokenizer."""
    ids = {"eos_token_id": 0, "bos_token_id": 1, "pad_token_id": 0}
    size = len(byte_level_tokens())
    build(family, seed, vocab_size=size, **ids, **changes).save_pretrained(path)
    write_tokenizer(path)
    return str(path)


@pytest.fixture(scope="module")
def drafts(tmp_path_factory):
    """The target itself, whose chains are kept whole, and a model with other weights."""
    base = tmp_path_factory.mktemp("drafts")
    return [folder_of(base / str(seed), seed=seed, num_hidden_layers=2) for seed in (0, 1)]


def arm_of(name, drafts, k=K, **more):
    drafter, options, *_ = CASES[name]
    models = {"models": drafts} if drafter == "multi_draft" else {"model": drafts[0]}
    rule = "greedy" if name == "chain" else "multi_round"
    return ArmSpec(name, drafter, k, rule, drafter_options={**models, **options, **more})


@pytest.mark.parametrize("name", CASES)
def test_checked_widths_are_those_of_the_steps(tiny_target, drafts, monkeypatch, name):
    checked = {}
    verify_error, forward = selfcheck.verify_error, PackedModel.forward

    def noting(model, name, width, *hint):
        kind = model.owner.partition(":")[0]
        checked[kind] = max(width, checked.get(kind, 0))
        return verify_error(model, name, width, *hint)

    monkeypatch.setattr(selfcheck, "verify_error", noting)
    engine = open_engine({"model": str(tiny_target)}, [arm_of(name, drafts)])
    _, _, verified, fed = CASES[name]
    assert checked == {"target": verified, "draft": fed}
    assert engine.describe()["self_check"]["width"] == verified

    met = {"target": 0, "draft": 0}

    def watching(self, batch, taps=()):
        kind = self.owner.partition(":")[0]
        later = [segment.count for segment in batch.segments if segment.start]
        met[kind] = max([met[kind], *later])
        return forward(self, batch, taps)

    monkeypatch.setattr(PackedModel, "forward", watching)
    run(engine, name, requests(count=30), 3)
    assert met == checked


def test_room_for_candidates_is_not_verified(tiny_target, drafts):
    """EAGLE-2's sizes: 60 rows, though 8 levels process 70 nodes and 16 of 64 process 960."""
    for k, top_k in ((8, 10), (16, 64)):
        arm = arm_of("dynamic", drafts, k, nodes=59, top_k=top_k)
        engine = open_engine({"model": str(tiny_target)}, [arm])
        assert engine.describe()["self_check"]["width"] == 60


def test_a_refused_draft_is_no_reason_to_change_the_engine(tiny_target, drafts, tmp_path):
    turning = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    for name, family, changes in (
        ("rope", "llama", {"rope_parameters": turning}),
        ("softcap", "gemma2", {}),
    ):
        folder = folder_of(tmp_path / name, family, **changes)
        with pytest.raises(PrerequisiteError) as caught:
            open_engine({"model": str(tiny_target)}, [arm_of("chain", [folder])])
        assert folder in caught.value.message
        assert caught.value.hint.startswith("name another draft model")


def test_a_draft_whose_wide_levels_are_wrong_needs_a_narrower_tree(
    tiny_target, drafts, monkeypatch
):
    forward = PackedModel.forward

    def wrong(self, batch, taps=()):
        logits, states = forward(self, batch, taps)
        (segment,) = batch.segments[-1:]
        wide = self.owner.startswith("draft") and segment.start and segment.count > 3
        return logits + (9.0 if wide else 0.0), states

    monkeypatch.setattr(PackedModel, "forward", wrong)
    open_engine({"model": str(tiny_target)}, [arm_of("chain", drafts)])
    with pytest.raises(PrerequisiteError, match="4 rows at once") as caught:
        open_engine({"model": str(tiny_target)}, [arm_of("2x2x2", drafts)])
    assert caught.value.hint.startswith("set a narrower tree")

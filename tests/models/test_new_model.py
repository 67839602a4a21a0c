"""Models of a shape with random weights: what is written, that it loads, what is refused."""

import json

import pytest
import torch

from specbench.core.arm import ArmSpec
from specbench.engines.native import open_engine
from specbench.errors import PrerequisiteError, UsageError
from specbench.models import new_model as making
from specbench.models.load import load_model
from specbench.models.locate import Location, locate
from specbench.models.shapes.find import Configured
from specbench.models.weights import weight_hash
from tests.engines.native_runs import requests, run
from tests.models.tiny import byte_level_tokens, write_tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")
SHAPE = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": len(byte_level_tokens()) + 8,
    "tie_word_embeddings": False,
}


@pytest.fixture(autouse=True)
def demo(tmp_path, monkeypatch):
    folder = tmp_path / "demo"
    write_tokenizer(folder)
    (folder / "generation_config.json").write_text('{"eos_token_id": 2}')
    found = Location("demo", "demo", None, folder, "a test")
    monkeypatch.setattr(making, "locate", lambda name: found)


def written(folder, changes=None, **options):
    found = Configured("shape", SHAPE | (changes or {}), None)
    return making.new_model(found, folder, **{"dtype": "float32", **options})


def test_it_loads_as_the_shape_that_was_asked_for(tmp_path):
    loaded = load_model(locate(str(written(tmp_path / "m", dtype="bfloat16"))))
    assert loaded.dtype == torch.bfloat16
    # 4 matrices of attention, 3 of the MLP, 2 norms a layer; two embeddings and the last norm.
    layer = 2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48 + 2 * 32
    total = 3 * layer + 2 * SHAPE["vocab_size"] * 32 + 32
    assert sum(p.numel() for p in loaded.model.parameters()) == total
    assert loaded.eos_ids[-1] == 2
    assert loaded.context_limit == making.CONTEXT


def test_the_seed_alone_decides_the_weights(tmp_path):
    hashes = [weight_hash(written(tmp_path / f"{n}", seed=n // 2)) for n in range(3)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_the_first_layers_alone(tmp_path):
    kinds = ["sliding_attention", "full_attention", "full_attention"]
    changes = {"model_type": "qwen3", "head_dim": 8, "sliding_window": 16, "layer_types": kinds}
    folder = written(tmp_path / "m", changes, layers=2)
    assert json.loads((folder / "config.json").read_text())["layer_types"] == kinds[:2]
    assert len(load_model(locate(str(folder))).model.model.layers) == 2


def test_a_pair_decodes_at_the_acceptance_that_was_set(tmp_path):
    target, draft = written(tmp_path / "t"), written(tmp_path / "d", layers=1, seed=1)
    pair = ArmSpec(
        "pair",
        "draft_model",
        2,
        "synthetic",
        drafter_options={"model": str(draft)},
        rule_options={"rate": 1.0},
    )
    engine = open_engine({"model": str(target)}, [ArmSpec("plain"), pair])
    assert engine.describe()["target"]["random_weights"] is True
    traces = run(engine, "pair", requests(0.0, count=10, prompts=3), 2)
    for trace in traces.values():
        accepted = zip(trace.steps.accepted, trace.steps.judged, strict=True)
        assert all(kept == judged for kept, judged in accepted)


@pytest.mark.parametrize(
    ("changes", "options", "error", "said"),
    [
        ({}, {"layers": 4}, UsageError, "4 layers of shape, which has 3"),
        ({"vocab_size": 100}, {}, PrerequisiteError, "a vocabulary of 100"),
        ({"model_type": "no-such"}, {}, PrerequisiteError, "cannot build shape, a no-such"),
        ({"num_hidden_layers": 1}, {}, PrerequisiteError, "configuration of a head"),
    ],
)
def test_what_is_refused(tmp_path, changes, options, error, said):
    with pytest.raises(error, match=said):
        written(tmp_path / "m", changes, **options)
    assert not (tmp_path / "m").exists()


def test_a_folder_in_use_is_left_alone(tmp_path):
    written(tmp_path / "m")
    with pytest.raises(UsageError, match="already holds a model"):
        written(tmp_path / "m")

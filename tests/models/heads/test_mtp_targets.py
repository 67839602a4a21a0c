"""Targets that carry MTP layers load and run packed: latent attention, experts, MiMo's own type."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from specbench.models.load import load_model
from specbench.models.locate import locate
from specbench.models.packed import PackedModel
from specbench.models.selfcheck import check, refuse_configuration
from tests.models.families import reference
from tests.models.heads.tiny_heads import tiny_model
from tests.models.tiny import write_tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("family", ["deepseek", "glm4_moe", "mimo"])
def test_packed_forwards_equal_separate_ones(family):
    model = tiny_model(family)
    refuse_configuration(model.config, "some/model")
    measured = check(PackedModel(model, "target"), "some/model", 6)
    assert measured.packed_error < 1e-4
    assert measured.verify_error < 1e-4
    assert measured.attention_calls == 1


def test_latent_attention_keeps_expanded_keys_and_values():
    # 4 heads; keys of 6 plain and 4 rotated entries, values of 7.
    layers = PackedModel(tiny_model("deepseek"), "target").geometry()
    assert [(g.kv_heads, g.key_size, g.value_size) for g in layers] == [(4, 10, 7)] * 3


def test_mimo_is_read_as_qwen2(tmp_path):
    model = tiny_model("mimo")
    model.save_pretrained(tmp_path)
    write_tokenizer(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {
        "model_type": "mimo",
        "architectures": ["MiMoForCausalLM"],
        "auto_map": {"AutoModelForCausalLM": "modeling_mimo.MiMoForCausalLM"},
        "num_nextn_predict_layers": 1,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    weights = tmp_path / "model.safetensors"
    tensors = load_file(weights) | {"model.mtp_layers.0.input_proj.weight": torch.zeros(32, 64)}
    save_file(tensors, weights, metadata={"format": "pt"})
    read = load_model(locate(str(tmp_path)))
    assert read.config.model_type == "qwen2"
    assert read.config.num_nextn_predict_layers == 1
    ids = [5, 80, 7, 200]
    assert torch.equal(reference(read.model)(ids), reference(model)(ids))

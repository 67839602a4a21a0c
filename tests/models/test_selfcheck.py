"""Models whose packed forward would be wrong are refused by name, with a server to run them."""

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, Qwen3NextConfig

from specbench.errors import PrerequisiteError
from specbench.models.attention import sdpa
from specbench.models.packed import PackedModel
from specbench.models.selfcheck import check, refuse_configuration
from tests.models.families import SIZES, VOCABULARY, build

pytestmark = pytest.mark.usefixtures("one_thread")


def refused(call, *parts):
    with pytest.raises(PrerequisiteError) as caught:
        call()
    assert caught.value.exit_code == 3
    for part in ("some/model", *parts):
        assert part in caught.value.message
    assert "vllm serve some/model" in caught.value.hint


def test_linear_attention_is_refused():
    config = Qwen3NextConfig(num_hidden_layers=4)
    refused(lambda: refuse_configuration(config, "some/model"), "linear_attention")


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_rope_that_depends_on_the_longest_row_is_refused(kind):
    rope = {"rope_type": kind, "rope_theta": 1e4, "factor": 2.0}
    if kind == "longrope":
        rope |= {"short_factor": [1.0] * 4, "long_factor": [1.0] * 4}
    config = LlamaConfig(**SIZES, rope_parameters=rope)
    refused(lambda: refuse_configuration(config, "some/model"), kind)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "gemma3"])
def test_known_families_pass(family):
    model = build(family)
    refuse_configuration(model.config, "some/model")
    measured = check(PackedModel(model, "target"), "some/model", 6)
    assert 0 <= measured.packed_error < 1e-4
    assert 0 <= measured.verify_error < 1e-4
    assert measured.attention_calls == 1


def test_an_unknown_attention_keyword_is_refused():
    model = PackedModel(build("gemma2"), "target")
    refused(lambda: check(model, "some/model", 4), "softcap")


def test_a_layer_that_bypasses_the_attention_interface_is_refused():
    class Silent(nn.Module):
        def forward(self, hidden_states, **_):
            return torch.zeros_like(hidden_states), None

    model = build("llama")
    model.model.layers[1].self_attn = Silent()
    refused(lambda: check(PackedModel(model, "target"), "some/model", 4), "2 of 3 layers")


def test_attention_that_looks_ahead_is_refused(monkeypatch):
    model = PackedModel(build("llama"), "target")
    attention = torch.nn.functional.scaled_dot_product_attention

    def without_mask(query, key, value, **options):
        return attention(query, key, value, **options | {"attn_mask": None, "is_causal": False})

    # The reference runs eagerly and is not affected.
    monkeypatch.setattr(sdpa.functional, "scaled_dot_product_attention", without_mask)
    refused(lambda: check(model, "some/model", 4), "differs")


@pytest.mark.parametrize("padded", [1, 5])
def test_padded_vocabulary_rows_do_not_count_as_a_difference(padded):
    mask = torch.zeros(VOCABULARY, dtype=torch.bool)
    mask[-padded:] = True
    measured = check(PackedModel(build("llama"), "target", mask), "some/model", 4)
    assert measured.packed_error < 1e-4
    assert measured.verify_error < 1e-4

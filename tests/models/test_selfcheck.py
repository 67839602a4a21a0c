"""Models whose packed forward would be wrong are refused by name, with a server to run them."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from transformers import LlamaConfig, Qwen3NextConfig

from specbench.errors import PrerequisiteError
from specbench.models import selfcheck
from specbench.models.attention import sdpa
from specbench.models.packed import PackedModel
from specbench.models.selfcheck import check, refuse_configuration, verify_error
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
    assert measured.width == 6


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


def test_attention_calls_are_those_of_one_forward():
    """Three packed forwards are watched; a layer that attends twice makes six calls in them."""

    class Twice(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, *given, **named):
            self.inner(*given, **named)
            return self.inner(*given, **named)

    model = build("llama")
    for layer in model.model.layers:
        layer.self_attn = Twice(layer.self_attn)
    assert check(PackedModel(model, "target"), "some/model", 4).attention_calls == 2


def test_a_caller_says_what_to_do_about_its_model(monkeypatch):
    turning = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    config = LlamaConfig(**SIZES, rope_parameters=turning)
    with pytest.raises(PrerequisiteError) as caught:
        refuse_configuration(config, "some/model", "take another")
    assert caught.value.hint == "take another"
    for call in (check, verify_error):
        monkeypatch.setitem(selfcheck._TOLERANCE, torch.float32, -1.0)
        with pytest.raises(PrerequisiteError) as caught:
            call(PackedModel(build("llama"), "target"), "some/model", 4, "not {model}")
        assert caught.value.hint == "not some/model"


def test_attention_that_looks_ahead_is_refused(monkeypatch):
    model = PackedModel(build("llama"), "target")
    attention = torch.nn.functional.scaled_dot_product_attention

    def without_mask(query, key, value, **options):
        return attention(query, key, value, **options | {"attn_mask": None, "is_causal": False})

    # The reference runs eagerly and is not affected.
    monkeypatch.setattr(sdpa.functional, "scaled_dot_product_attention", without_mask)
    refused(lambda: check(model, "some/model", 4), "differs")


def test_nodes_that_see_a_level_before_theirs_are_checked(monkeypatch):
    """Positions of the wrong end of a tail: right wherever a tree comes in one forward."""
    model = PackedModel(build("llama"), "target")
    right = selfcheck.pack

    def wrong_end(segments, ids, logits):
        batch = right(segments, ids, logits)
        (last,) = segments[-1:]
        if last.depths is None or last.tail == last.count:
            return batch
        return replace(batch, positions=last.before + last.depths[: last.count])

    assert check(model, "some/model", 4).packed_error < 1e-4
    monkeypatch.setattr(selfcheck, "pack", wrong_end)
    refused(lambda: check(model, "some/model", 4), "differs")


def test_rows_that_change_with_how_many_there_are_are_refused(monkeypatch):
    """Wrong from 6 rows on, which neither a prompt of 7 nor a tree of 4 shows."""
    model = PackedModel(build("llama"), "target")
    forward = PackedModel.forward

    def wrong(self, batch, taps=()):
        logits, states = forward(self, batch, taps)
        (segment,) = batch.segments[-1:]
        return logits + (1.0 if segment.start and segment.count > 5 else 0.0), states

    monkeypatch.setattr(PackedModel, "forward", wrong)
    assert check(model, "some/model", 5).width == 5
    refused(lambda: check(model, "some/model", 6), "6 rows at once")
    refused(lambda: verify_error(model, "some/model", 9), "9 rows at once")


def test_a_wide_check_runs_few_rows_one_by_one():
    model = PackedModel(build("llama"), "target")
    forward, rows = PackedModel.forward, []
    model.forward = lambda batch, taps=(): rows.append(batch.tokens) or forward(model, batch, taps)
    assert 0 <= verify_error(model, "some/model", 200) < 1e-4
    assert rows == [11, 200, *[1] * 32]


@pytest.mark.parametrize("padded", [1, 5])
def test_padded_vocabulary_rows_do_not_count_as_a_difference(padded):
    mask = torch.zeros(VOCABULARY, dtype=torch.bool)
    mask[-padded:] = True
    measured = check(PackedModel(build("llama"), "target", mask), "some/model", 4)
    assert measured.packed_error < 1e-4
    assert measured.verify_error < 1e-4

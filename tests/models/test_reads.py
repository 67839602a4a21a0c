"""Weights that a forward reads, by hand sums over tiny models of transformers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM

from specbench.core.limit import Reads
from specbench.models.reads import reads_of, weights_read
from specbench.models.weights import weight_bytes

SIZES = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 50,
}
EMBEDDING = 50 * 16 * 4


def read(model):
    whole = weight_bytes(model)
    return whole, weights_read(model, whole)


def test_a_tied_embedding_is_read_as_the_output_projection():
    whole, found = read(LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)))
    assert found == whole


def test_of_an_untied_one_only_rows_are_read():
    whole, found = read(LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=False)))
    assert found == whole - EMBEDDING


def test_of_experts_those_that_are_met():
    config = MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=1)
    whole, found = read(MixtralForCausalLM(config))
    experts = 2 * 4 * 3 * 16 * 24 * 4
    assert found == whole - EMBEDDING - experts * 3 // 4


@pytest.mark.parametrize(("window", "kv"), [(None, 96), (8, 0)])
def test_contexts_of_windows_are_left_out(window, kv):
    text = SimpleNamespace(sliding_window=window)
    model = SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: text))
    packed = SimpleNamespace(model=model, kv_bytes=96)
    assert reads_of(1000, packed) == Reads(1000, kv)
    assert reads_of(None, packed) is None


def test_float16_weights_count_two_bytes():
    model = LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=False)).to(torch.float16)
    assert read(model)[0] - read(model)[1] == EMBEDDING // 2

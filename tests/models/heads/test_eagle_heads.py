"""EAGLE networks over the pool give the logits of an independent implementation without a cache."""

import functools

import pytest
import torch

from specbench.decoding.protocols import Tap
from specbench.models.heads.configs import FINAL, HeadCheckpoint
from tests.models.heads.agreement import TOLERANCE, largest_difference
from tests.models.heads.reference_eagle import ReferenceEagle1, ReferenceEagle3
from tests.models.heads.tiny_heads import (
    VOCABULARY,
    eagle_config,
    eagle_shapes,
    loaded,
    random_tensors,
    tiny_model,
)

pytestmark = pytest.mark.usefixtures("one_thread")

BOTH_ENDS = ("embed_tokens.weight", "lm_head.weight")
LINEAR = {"type": "linear", "factor": 4.0}

EAGLE1 = {
    "as published for Llama-3": ({}, ()),
    "bias of fc": ({"fc_bias": True}, ()),
    "own embedding": ({}, ("embed_tokens.weight",)),
    "first layer normed": ({"input_norm": True}, ()),
    "last norm, fed back": ({"final_norm": True, "recycle": "post_norm"}, ()),
    "last norm, not fed back": ({"final_norm": True}, ()),
    "two layers": ({"layers": 2, "fc_bias": True}, ()),
    "bias of q, k and v": ({"attention_bias": True}, ()),
    "bias of all four": ({"attention_bias": True}, ("layers.0.self_attn.o_proj.bias",)),
    "other rotary base": ({"rope_theta": 500.0}, ()),
    "scaled rotary": ({"rope_scaling": LINEAR}, ()),
    "other activation": ({"activation": "relu"}, ()),
    "narrow attention": ({"heads": 2, "kv_heads": 1, "head_size": 6}, BOTH_ENDS),
}
EAGLE3 = {
    "as published": ({}, ()),
    "normed residual": ({"norm_before_residual": True}, ()),
    "norm before fc": ({"norm_before_fc": True}, ()),
    "norm per layer": ({"fc_norm": True}, ()),
    "last norm fed back": ({"recycle": "post_norm"}, ()),
    "no last norm": ({"final_norm": False}, ()),
    "three layers": ({"layers": 3, "norm_before_residual": True}, ()),
    "biases": ({"attention_bias": True, "fc_bias": True}, ()),
    "one head for all": ({"kv_heads": 1, "head_size": 16}, ()),
    "two features": ({"taps": (Tap(1, "leaving"), FINAL)}, ()),
    "narrower than the target": ({"hidden": 24}, BOTH_ENDS),
    "no multiple of its heads": ({"hidden": 30}, BOTH_ENDS),
    "scaled rotary": ({"rope_scaling": LINEAR, "rope_theta": 500.0}, ()),
    "everything": (
        {
            "hidden": 40,
            "layers": 2,
            "fc_norm": True,
            "norm_before_residual": True,
            "recycle": "post_norm",
            "attention_bias": True,
        },
        (*BOTH_ENDS, "layers.0.self_attn.o_proj.bias"),
    ),
}


@functools.cache
def target():
    return loaded(tiny_model("llama"))


def difference(version, changes, own, mapped=False, prepack=False):
    if mapped:
        changes = changes | {"draft_vocabulary": 48}
        own = {*own, "lm_head.weight"}
    config = eagle_config(version, **changes)
    tensors = random_tensors(eagle_shapes(config, own))
    if mapped:
        chance = torch.Generator().manual_seed(1)
        tensors["target_ids"] = torch.randperm(VOCABULARY, generator=chance)[:48].sort().values
    checkpoint = HeadCheckpoint(f"eagle{version}", "official", config, tensors)
    model = target().model
    reference = (ReferenceEagle1 if version == 1 else ReferenceEagle3)(
        config, tensors, model.get_input_embeddings().weight, model.lm_head.weight
    )
    return largest_difference(checkpoint, target(), reference, prepack)


@pytest.mark.parametrize("name", EAGLE1)
def test_eagle_1(name):
    assert difference(1, *EAGLE1[name]) < TOLERANCE


@pytest.mark.parametrize("name", EAGLE3)
def test_eagle_3(name):
    assert difference(3, *EAGLE3[name]) < TOLERANCE


@pytest.mark.parametrize("version", [1, 3])
def test_a_vocabulary_of_its_own(version):
    assert difference(version, {}, (), mapped=True) < TOLERANCE


@pytest.mark.parametrize("version", [1, 3])
def test_packed_weights(version):
    assert difference(version, {"layers": 2}, ("lm_head.weight",), prepack=True) < TOLERANCE

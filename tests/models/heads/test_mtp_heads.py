"""MTP layers over the pool give the logits of an independent implementation without a cache."""

import functools

import pytest

from specbench.models.heads.configs import HeadCheckpoint
from tests.models.heads.agreement import TOLERANCE, largest_difference
from tests.models.heads.reference_mtp import ReferenceMtp
from tests.models.heads.tiny_heads import (
    loaded,
    mtp_config,
    mtp_shapes,
    random_tensors,
    tiny_model,
)

pytestmark = pytest.mark.usefixtures("one_thread")

FAMILIES = ["deepseek", "glm4_moe", "mimo"]
CASES = {
    "as published": ({}, ()),
    "embedding first": ({"order": "embedding_first"}, ()),
    "hidden first": ({"order": "hidden_first"}, ()),
    "before the norm": ({"recycle": "pre_norm"}, ()),
    "behind the norm": ({"recycle": "post_norm"}, ()),
    "the target's state again": ({"recycle": "target"}, ()),
    "nothing zeroed": ({"zero_first": False}, ()),
    "own ends": ({}, ("embed_tokens.weight", "head.weight")),
}


@functools.cache
def target(family, **changes):
    return loaded(tiny_model(family, **changes))


def difference(family, changes, own, prepack=False, **sizes):
    lender = target(family, **sizes)
    config = mtp_config(family, lender, **changes)
    tensors = random_tensors(mtp_shapes(config, own))
    reference = ReferenceMtp(
        config,
        tensors,
        lender.model.get_input_embeddings().weight,
        lender.model.lm_head.weight,
    )
    return largest_difference(
        HeadCheckpoint("mtp", "nextn", config, tensors), lender, reference, prepack
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("family", FAMILIES)
def test_each_family(family, name):
    assert difference(family, *CASES[name]) < TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
def test_packed_weights(family):
    assert difference(family, {}, ("head.weight",), prepack=True) < TOLERANCE


def test_latent_attention_without_a_low_rank_query():
    assert difference("deepseek", {}, (), q_lora_rank=None) < TOLERANCE


def test_attention_without_norms_of_query_and_key():
    assert difference("glm4_moe", {}, (), use_qk_norm=False) < TOLERANCE

"""What is refused while a head is put together, and what is counted."""

import functools
from dataclasses import replace

import pytest
import torch

from specbench.errors import PrerequisiteError
from specbench.models.heads.build import build_feature_head
from specbench.models.heads.configs import HeadCheckpoint, MedusaConfig
from specbench.models.linear import PackedLinear, pack_linears
from tests.models.heads.tiny_heads import (
    VOCABULARY,
    eagle_config,
    eagle_shapes,
    loaded,
    mtp_config,
    mtp_shapes,
    random_tensors,
    tiny_model,
)

pytestmark = pytest.mark.usefixtures("one_thread")

OWN = ("embed_tokens.weight", "lm_head.weight")


@functools.cache
def target(family="llama"):
    return loaded(tiny_model(family))


def eagle(version, own=(), **changes):
    config = eagle_config(version, **changes)
    tensors = random_tensors(eagle_shapes(config, own))
    return HeadCheckpoint(f"eagle{version}", "official", config, tensors, "some/head")


def mtp(family):
    config = mtp_config(family, target(family))
    return HeadCheckpoint("mtp", "nextn", config, random_tensors(mtp_shapes(config)), "some/head")


def changed(checkpoint, drop=(), **tensors):
    kept = {name: t for name, t in checkpoint.tensors.items() if name not in drop}
    return replace(checkpoint, tensors=kept | tensors)


def refused(checkpoint, *parts, lender=None):
    with pytest.raises(PrerequisiteError) as caught:
        build_feature_head(checkpoint, lender or target())
    for part in ("some/head", *parts):
        assert part in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("version", [1, 3])
def test_a_missing_tensor(version):
    refused(changed(eagle(version), drop=["fc.weight"]), "fc.weight is missing", "[32, ")


@pytest.mark.parametrize("version", [1, 3])
def test_a_misshapen_tensor(version):
    wide = {"layers.0.mlp.up_proj.weight": torch.zeros(40, 33)}
    refused(changed(eagle(version), **wide), "up_proj.weight is [40, 33], wanted [40, 32]")


def test_a_tensor_too_many():
    extra = {"layers.1.hidden_norm.weight": torch.ones(32)}
    refused(changed(eagle(3), **extra), "layers.1.hidden_norm.weight of [32] has no place")
    norm = {"layers.0.input_layernorm.weight": torch.ones(32)}
    refused(changed(eagle(1), **norm), "layers.0.input_layernorm.weight of [32] has no place")


def test_every_fault_is_counted():
    broken = changed(eagle(1), drop=["fc.weight"], surplus=torch.zeros(3))
    refused(broken, "2 of its tensors do not fit")


@pytest.mark.parametrize("family", ["deepseek", "glm4_moe"])
def test_experts_are_counted(family):
    lender = target(family)
    name = "layer.mlp.experts.{}.up_proj.weight"
    refused(changed(mtp(family), drop=[name.format(5)]), name.format(5), "missing", lender=lender)
    ninth = {name.format(8): torch.zeros(16, 32)}
    refused(changed(mtp(family), **ninth), name.format(8), "no place", lender=lender)
    narrow = {name.format(2): torch.zeros(16, 31)}
    refused(changed(mtp(family), **narrow), "[16, 31], wanted [16, 32]", lender=lender)


def test_a_map_of_another_length():
    ids = {"target_ids": torch.arange(4)}
    for made, lender in ((mtp("mimo"), target("mimo")), (eagle(1), target())):
        refused(changed(made, **ids), "target_ids is [4], wanted [263]", lender=lender)


def test_an_end_that_the_target_cannot_lend():
    refused(eagle(3, hidden=24), "embed_tokens.weight is missing, wanted [263, 24]", "[263, 32]")
    refused(eagle(3, draft_vocabulary=48), "lm_head.weight is missing, wanted [48, 32]")


def test_a_head_that_cannot_feed_itself():
    refused(eagle(1, OWN, hidden=24), "hidden size 24", "of size 32")


def test_ids_outside_the_target():
    checkpoint = eagle(3, ["lm_head.weight"], draft_vocabulary=4)
    ids = {"target_ids": torch.tensor([1, 2, 3, VOCABULARY])}
    refused(changed(checkpoint, **ids), "1 to 263", "263 vocabulary rows")
    lent = changed(eagle(1, draft_vocabulary=4), **ids)
    refused(lent, "1 to 263", "263 vocabulary rows")


def test_a_rotary_that_depends_on_the_batch():
    refused(eagle(1, rope_scaling={"rope_type": "dynamic", "factor": 2.0}), "dynamic")


def test_values_that_transformers_does_not_know():
    refused(eagle(3, activation="spiky"), "cannot be laid out", "spiky")
    refused(eagle(1, rope_scaling={"rope_type": "spiral"}), "cannot be laid out", "spiral")


def test_another_family():
    config = MedusaConfig(32, VOCABULARY, VOCABULARY, 2, 1, "own", True)
    refused(HeadCheckpoint("medusa", "v1", config, {}, "some/head"), "medusa")


def test_what_the_target_lends_is_not_counted():
    borrowing, owning = eagle(3), eagle(3, OWN)
    size = 4 * sum(tensor.numel() for tensor in borrowing.tensors.values())
    ends = 2 * 4 * VOCABULARY * 32
    assert build_feature_head(borrowing, target()).weight_bytes == size
    assert build_feature_head(owning, target()).weight_bytes == size + ends


def test_names_are_those_of_the_checkpoint():
    for checkpoint in (eagle(1, fc_bias=True), eagle(3, OWN, fc_norm=True, layers=2)):
        head = build_feature_head(checkpoint, target())
        assert head.state_dict().keys() == checkpoint.tensors.keys()
        assert not any(parameter.requires_grad for parameter in head.parameters())
        assert not head.training


def test_weights_take_no_second_copy():
    checkpoint = eagle(3)
    head = build_feature_head(checkpoint, target())
    assert head.fc.weight.data_ptr() == checkpoint.tensors["fc.weight"].data_ptr()


@pytest.mark.parametrize("prepack", [False, True])
def test_data_type_of_the_tensors(prepack):
    checkpoint = eagle(1)
    half = {name: tensor.to(torch.bfloat16) for name, tensor in checkpoint.tensors.items()}
    head = build_feature_head(replace(checkpoint, tensors=half), target(), prepack=prepack)
    assert head.dtype == torch.bfloat16
    assert head.embed(torch.tensor([3])).dtype == torch.bfloat16
    # The target's own output projection computes in the target's type.
    assert head.logits(torch.zeros(1, 32, dtype=torch.bfloat16)).dtype == torch.float32


def test_ends_of_a_packed_target():
    lender = loaded(tiny_model("llama"))
    plain = build_feature_head(eagle(1), lender).logits(torch.ones(1, 32))
    pack_linears(lender.model)
    head = build_feature_head(eagle(1), lender, prepack=True)
    assert isinstance(head.fc, PackedLinear)
    torch.testing.assert_close(head.logits(torch.ones(1, 32)), plain)

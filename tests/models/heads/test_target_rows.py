"""Heads of some tokens without a projection project by the target's rows of these tokens."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch
from torch import nn

from specbench.errors import PrerequisiteError
from specbench.models.heads.build import build_feature_head
from specbench.models.heads.configs import HeadCheckpoint
from specbench.models.heads.medusa import build_parallel_heads
from specbench.models.heads.mtp import MtpHead
from specbench.models.heads.standalone import standalone
from specbench.models.linear import PackedLinear, can_pack, pack_linears
from specbench.models.quant.apply import quantise_head, quantise_linears
from specbench.models.quant.settings import Quant
from specbench.models.weights import weight_bytes
from tests.models.heads import medusa_heads
from tests.models.heads.agreement import TOLERANCE, largest_difference
from tests.models.heads.reference_eagle import ReferenceEagle1, ReferenceEagle3
from tests.models.heads.reference_mtp import ReferenceMtp
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

SIZE = 32
KINDS = ("eagle1", "eagle3", "deepseek", "glm4_moe", "mimo")
REFERENCES = {"eagle1": ReferenceEagle1, "eagle3": ReferenceEagle3}
SOME = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(1))[:48].sort().values

needs_packing = pytest.mark.skipif(not can_pack(), reason="this torch has no oneDNN packing")


def fresh(kind, **changes):
    """A target of a kind of head."""
    return loaded(tiny_model("llama" if kind.startswith("eagle") else kind, **changes))


target = functools.cache(fresh)


def checkpoint(kind, ids=None):
    """A head without ends, with a map where there are ids."""
    rows = VOCABULARY if ids is None else len(ids)
    if kind.startswith("eagle"):
        config = eagle_config(int(kind[-1]), draft_vocabulary=rows)
        family, tensors = kind, random_tensors(eagle_shapes(config))
    else:
        config = mtp_config(kind, target(kind), draft_vocabulary=rows)
        family, tensors = "mtp", random_tensors(mtp_shapes(config))
    if ids is not None:
        tensors["target_ids"] = ids
    return HeadCheckpoint(family, "here", config, tensors, "some/head")


def projection(head):
    return head.head if isinstance(head, MtpHead) else head.lm_head


def states(count=5):
    return torch.randn(count, SIZE, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("prepack", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_drafts_are_those_of_the_rows(kind, prepack):
    made, lender = checkpoint(kind, SOME), target(kind)
    embedding = lender.model.get_input_embeddings().weight
    rows = lender.model.lm_head.weight[SOME]
    reference = REFERENCES.get(kind, ReferenceMtp)(made.config, made.tensors, embedding, rows)
    assert largest_difference(made, lender, reference, prepack) < TOLERANCE


@pytest.mark.parametrize("kind", ["eagle1", "eagle3", "mimo"])
def test_all_tokens_in_any_order_are_no_map(kind):
    lender = target(kind)
    plain = build_feature_head(checkpoint(kind), lender).logits(states())
    assert plain.shape == (5, VOCABULARY)
    every = torch.arange(VOCABULARY)
    sorted_ids = build_feature_head(checkpoint(kind, every), lender).logits(states())
    assert torch.equal(sorted_ids, plain)
    shuffled = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(3))
    mixed = build_feature_head(checkpoint(kind, shuffled), lender).logits(states())
    torch.testing.assert_close(mixed, plain[:, shuffled])


@pytest.mark.parametrize("kind", ["eagle1", "eagle3", "mimo"])
def test_the_copy_counts_and_is_no_parameter(kind):
    made = checkpoint(kind, SOME)
    head = build_feature_head(made, target(kind))
    own = sum(t.numel() * t.element_size() for t in made.tensors.values())
    assert head.weight_bytes == own + 4 * len(SOME) * SIZE
    head.requires_grad_(True)
    assert not projection(head).weight.requires_grad
    trained = {name for name, _ in head.named_parameters()}
    assert trained == made.tensors.keys() - {"target_ids"}


@pytest.mark.parametrize("kind", ["eagle1", "eagle3", "mimo"])
def test_gradients_reach_what_is_projected(kind):
    lender = target(kind)
    head = build_feature_head(checkpoint(kind, SOME), lender)
    entering = states().requires_grad_()
    weights = torch.randn(5, len(SOME), generator=torch.Generator().manual_seed(4))
    (weights * head.project(entering)).sum().backward()
    # d/dx of the sum of w * (W x) is W^T w.
    wanted = weights @ lender.model.lm_head.weight[SOME]
    torch.testing.assert_close(entering.grad, wanted)
    assert projection(head).weight.grad is None


@pytest.mark.parametrize("kind", ["eagle1", "eagle3", "mimo"])
@pytest.mark.parametrize("ids", [None, SOME], ids=["all", "some"])
def test_a_head_written_in_full_drafts_the_same(kind, ids):
    made, lender = checkpoint(kind, ids), target(kind)
    whole = standalone(made, lender)
    assert len(whole.tensors) == len(made.tensors) + 1
    lent, own = (build_feature_head(head, lender) for head in (made, whole))
    assert torch.equal(own.logits(states()), lent.logits(states()))


@needs_packing
@pytest.mark.parametrize("tied", [False, True])
def test_a_packed_target_lends_its_rows(tied):
    lender = fresh("eagle3", tie_word_embeddings=tied)
    rows = lender.model.lm_head.weight[SOME].clone()
    pack_linears(lender.model)
    assert isinstance(lender.model.lm_head, PackedLinear)
    head = build_feature_head(checkpoint("eagle3", SOME), lender)
    assert torch.equal(head.lm_head.weight, rows)
    packed = build_feature_head(checkpoint("eagle3", SOME), lender, prepack=True)
    assert isinstance(packed.lm_head, PackedLinear)
    torch.testing.assert_close(packed.project(states()), states() @ rows.T)


@needs_packing
@pytest.mark.parametrize("packed", [False, True])
def test_a_bias_of_the_targets_projection_goes_along(packed):
    lender = fresh("eagle1")
    plain = lender.model.lm_head
    lender.model.lm_head = nn.Linear(SIZE, VOCABULARY).requires_grad_(False)
    lender.model.lm_head.weight.copy_(plain.weight)
    bias = lender.model.lm_head.bias.clone()
    if packed:
        pack_linears(lender.model)
    head = build_feature_head(checkpoint("eagle1", SOME), lender, prepack=packed)
    wanted = states() @ plain.weight[SOME].T + bias[SOME]
    torch.testing.assert_close(head.project(states()), wanted)
    assert not list(head.lm_head.parameters())


def test_the_copy_has_the_heads_type():
    made = checkpoint("eagle1", SOME)
    half = {n: t.bfloat16() if t.is_floating_point() else t for n, t in made.tensors.items()}
    head = build_feature_head(replace(made, tensors=half), target("eagle1"))
    assert head.lm_head.weight.dtype == torch.bfloat16
    assert head.logits(states().bfloat16()).dtype == torch.bfloat16


def test_a_quantised_target_lends_rows_that_are_not():
    lender = fresh("eagle3")
    rows = lender.model.lm_head.weight[SOME].clone()
    quantise_linears(lender.model, Quant("int8"), "target")
    head = build_feature_head(checkpoint("eagle3", SOME), lender)
    assert torch.equal(head.lm_head.weight, rows)


@pytest.mark.parametrize("quant", [Quant("int8", head=True), Quant("int4", group=16, head=True)])
def test_a_quantised_projection_is_refused(quant):
    lender = fresh("eagle3")
    quantise_linears(lender.model, quant, "target")
    with pytest.raises(PrerequisiteError, match=r"some/head .* rows of its 48 tokens") as caught:
        build_feature_head(checkpoint("eagle3", SOME), lender)
    assert "quant_head" in caught.value.hint
    heads = medusa_heads.checkpoint("target", target_ids=[5, 9])
    with pytest.raises(PrerequisiteError, match="rows of its 2 tokens"):
        build_parallel_heads(heads, lender, vocabulary=VOCABULARY)


def test_a_quantised_copy_is_counted_once():
    head = build_feature_head(checkpoint("eagle3", SOME), target("eagle3"))
    quantise_head(head, Quant("int8", head=True), "head", target("eagle3").model, prepack=False)
    assert not isinstance(head.lm_head, nn.Linear)
    assert head.weight_bytes == weight_bytes(head)


def test_a_target_of_another_size_lends_no_rows():
    made = checkpoint("eagle3", SOME)
    wider = replace(made, config=replace(made.config, vocabulary=VOCABULARY + 1))
    with pytest.raises(PrerequisiteError, match=r"wanted \[264, 32\], and the target's is \[263"):
        build_feature_head(wider, target("eagle3"))

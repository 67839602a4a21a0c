"""Quantised heads compute with the weights of the formula, by their independent references."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specbench.errors import PrerequisiteError
from specbench.models.heads.build import build_feature_head
from specbench.models.heads.configs import HeadCheckpoint
from specbench.models.heads.medusa import build_parallel_heads
from specbench.models.quant.apply import quantise_head
from specbench.models.quant.settings import Quant
from specbench.models.weights import weight_bytes
from tests.models.heads import agreement, medusa_heads
from tests.models.heads.reference_eagle import ReferenceEagle1, ReferenceEagle3
from tests.models.heads.reference_mtp import ReferenceMtp
from tests.models.heads.tiny_heads import (
    eagle_config,
    eagle_shapes,
    loaded,
    mtp_config,
    mtp_shapes,
    random_tensors,
    tiny_model,
)
from tests.models.quant.by_hand import int8_weight

pytestmark = pytest.mark.usefixtures("one_thread")

INT8 = Quant("int8")
ENDS = ("embed_tokens", "lm_head", "head.", "projection")


def widened(tensors):
    """What a head computes with; embeddings, output projections, norms and biases stay."""
    return {
        name: torch.tensor(int8_weight(tensor.double().numpy())[0], dtype=torch.float32)
        if tensor.ndim == 2 and not name.startswith(ENDS) and "projection" not in name
        else tensor
        for name, tensor in tensors.items()
    }


@pytest.fixture
def quantised(monkeypatch):
    """Heads under comparison are quantised behind the reader's back; the target must not be."""

    def build(checkpoint, target, *, prepack=False):
        head = build_feature_head(checkpoint, target, prepack=False)
        before = head.weight_bytes
        lent = weight_bytes(target.model)
        quantise_head(head, INT8, "head", target.model, prepack=prepack)
        assert head.weight_bytes == weight_bytes(head) < before
        assert weight_bytes(target.model) == lent
        return head

    monkeypatch.setattr(agreement, "build_feature_head", build)


@pytest.mark.usefixtures("quantised")
@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("own", [(), ("lm_head.weight",)], ids=["lent ends", "own projection"])
def test_eagle(version, own):
    config = eagle_config(version, attention_bias=True)
    tensors, target = random_tensors(eagle_shapes(config, own)), loaded(tiny_model("llama"))
    reference = (ReferenceEagle1 if version == 1 else ReferenceEagle3)(
        config,
        widened(tensors),
        target.model.get_input_embeddings().weight,
        target.model.lm_head.weight,
    )
    checkpoint = HeadCheckpoint(f"eagle{version}", "official", config, tensors)
    assert agreement.largest_difference(checkpoint, target, reference, False) < 1e-4


@pytest.mark.usefixtures("quantised")
def test_mtp():
    target = loaded(tiny_model("mimo"))
    config = mtp_config("mimo", target)
    tensors = random_tensors(mtp_shapes(config))
    reference = ReferenceMtp(
        config,
        widened(tensors),
        target.model.get_input_embeddings().weight,
        target.model.lm_head.weight,
    )
    checkpoint = HeadCheckpoint("mtp", "nextn", config, tensors)
    assert agreement.largest_difference(checkpoint, target, reference, False) < 1e-4


def test_experts_that_are_fused_are_refused():
    target = loaded(tiny_model("deepseek"))
    config = mtp_config("deepseek", target)
    checkpoint = HeadCheckpoint("mtp", "nextn", config, random_tensors(mtp_shapes(config)))
    head = build_feature_head(checkpoint, target)
    with pytest.raises(PrerequisiteError, match=r"is one tensor .* for several layers"):
        quantise_head(head, INT8, "head", target.model, prepack=False)


@pytest.mark.parametrize("projection", ["own", "one"])
def test_medusa(projection):
    made = medusa_heads.checkpoint(projection)
    target = loaded(tiny_model("llama"))
    heads = build_parallel_heads(made, target, vocabulary=medusa_heads.VOCABULARY)
    quantise_head(heads, INT8, "heads", target.model, prepack=False)
    stored = replace(made, tensors=widened(made.tensors))
    hidden = torch.randn(4, medusa_heads.HIDDEN, generator=torch.Generator().manual_seed(7))
    for line, one in zip(heads(hidden, 3), hidden, strict=True):
        wanted = medusa_heads.defined(stored, one)[: len(line)]
        torch.testing.assert_close(line.double(), wanted, atol=1e-4, rtol=1e-4)

"""A quantised model is the model with the weights of the formula, packed or not, whole or cut."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from specbench.errors import PrerequisiteError
from specbench.models.early_exit import early_exit
from specbench.models.linear import PackedLinear, can_pack, pack_linears
from specbench.models.load import load_model
from specbench.models.locate import locate
from specbench.models.opened import open_target
from specbench.models.quant.apply import quantise_head, quantise_linears
from specbench.models.quant.int4 import Int4KernelLinear, Int4Linear
from specbench.models.quant.int8 import Int8Linear
from specbench.models.quant.settings import Quant
from specbench.models.weights import weight_bytes
from tests.models.families import build, reference
from tests.models.quant.by_hand import widened
from tests.models.tiny import tiny_model

INT8, INT4 = Quant("int8"), Quant("int4", group=16)
IDS = [1, 9, 33, 4, 60, 7]


def logits(model):
    return reference(model)(IDS)


@pytest.mark.parametrize("quant", [INT8, INT4], ids=lambda quant: quant.scheme)
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "gemma3"])
def test_a_model_has_the_logits_of_its_widened_weights(family, quant):
    model, wide = build(family), build(family)
    before = logits(wide)
    widened(wide, quant.scheme, quant.group)
    assert quantise_linears(model, quant, family) == 3 * 7
    torch.testing.assert_close(logits(model), logits(wide), rtol=1e-5, atol=1e-5)
    assert float((logits(model) - before).abs().max()) > 1e-3


def test_the_output_projection_is_quantised_where_that_is_asked_for():
    model, wide = build("llama"), build("llama")
    widened(wide, "int8", head=True)
    assert quantise_linears(model, Quant("int8", head=True), "llama") == 3 * 7 + 1
    torch.testing.assert_close(logits(model), logits(wide), rtol=1e-5, atol=1e-5)


@pytest.mark.skipif(not can_pack(), reason="this torch has no oneDNN packing")
def test_packing_leaves_quantised_layers_alone_and_takes_the_rest():
    model, wide = build("llama"), build("llama")
    widened(wide, "int8")
    quantise_linears(model, INT8, "llama")
    assert pack_linears(model) == 1
    assert isinstance(model.lm_head, PackedLinear)
    torch.testing.assert_close(logits(model), logits(wide), rtol=1e-4, atol=1e-4)


def test_an_early_exit_of_a_quantised_model_shares_its_layers():
    model, wide = build("llama"), build("llama")
    widened(wide, "int4", 16)
    quantise_linears(model, INT4, "llama")
    short = logits(early_exit(model, 2))
    torch.testing.assert_close(short, logits(early_exit(wide, 2)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("quant", [INT8, INT4], ids=lambda quant: quant.scheme)
def test_loading_counts_what_is_stored(tiny_folder, quant):
    loaded = load_model(locate(str(tiny_folder)), dtype="float32", quant=quant)
    plain = tiny_model()
    linear = [m for n, m in plain.named_modules() if isinstance(m, nn.Linear) and n != "lm_head"]
    rest = weight_bytes(plain) - sum(4 * m.weight.numel() for m in linear)
    assert loaded.weight_bytes == rest + widened(plain, quant.scheme, quant.group)
    assert (loaded.quant, loaded.dtype) == (quant, torch.float32)
    with torch.inference_mode():
        torch.testing.assert_close(
            loaded.model(torch.tensor([[4, 9, 30]])).logits,
            plain(torch.tensor([[4, 9, 30]])).logits,
            rtol=1e-5,
            atol=1e-5,
        )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("prepack", [True, False])
@pytest.mark.parametrize("scheme", ["int8", "int4"])
def test_an_opened_target_passes_its_self_check_and_says_what_it_is(
    tiny_folder, scheme, prepack, dtype
):
    quant = "int8" if scheme == "int8" else "int4-g16"
    settings = {"model": str(tiny_folder), "dtype": dtype, "prepack": prepack, "quant": quant}
    opened = open_target(settings, width=4)
    facts = opened.facts()["target"]
    assert facts["quant"] == quant
    assert facts["dtype"] == dtype
    plain = load_model(locate(str(tiny_folder)), dtype=dtype)
    assert facts["weight_bytes"] < plain.weight_bytes
    assert facts["weight_hash"] == plain.weight_hash
    kinds = {type(module) for module in opened.loaded.model.model.layers.modules()}
    assert (Int8Linear in kinds, Int4Linear in kinds) == (scheme == "int8", scheme == "int4")
    assert nn.Linear not in kinds
    assert PackedLinear not in kinds


def test_torch_s_kernel_is_taken_in_bfloat16():
    model = build("llama", dtype=torch.bfloat16, intermediate_size=64)
    quantise_linears(model, Quant("int4"), "llama")
    layers = [m for m in model.modules() if isinstance(m, Int4KernelLinear)]
    assert len(layers) == 3 * 7


class Head(nn.Module):
    """A head with a projection of its own that borrows a layer of the target."""

    def __init__(self, target):
        super().__init__()
        self.fc = nn.Linear(64, 32, bias=False)
        self.lm_head = nn.Linear(32, 8, bias=False)
        self.borrowed = target.model.layers[0].mlp.up_proj
        self.requires_grad_(False)
        self.weight_bytes = 4 * (64 * 32 + 32 * 8)


@pytest.mark.parametrize("prepack", [True, False])
def test_of_a_head_only_its_own_layers_are_quantised(prepack):
    target = build("llama")
    head = Head(target)
    exact = copy.deepcopy(head.fc)
    quantise_head(head, INT8, "head", target, prepack=prepack and can_pack())
    assert type(head.fc) is Int8Linear
    assert type(target.model.layers[0].mlp.up_proj) is nn.Linear
    assert type(head.lm_head) is (PackedLinear if prepack and can_pack() else nn.Linear)
    assert head.weight_bytes == 64 * 32 + 4 * 32 + 4 * 32 * 8
    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(head.fc(x), exact(x), rtol=0, atol=0.05)


def test_nothing_happens_where_nothing_is_asked_for():
    target = build("llama")
    head = Head(target)
    quantise_head(head, Quant(), "head", target, prepack=True)
    assert type(head.fc) is nn.Linear
    assert quantise_linears(target, Quant(), "llama") == 0


def test_columns_that_do_not_divide_are_named():
    with pytest.raises(PrerequisiteError, match=r"llama: .*down_proj has 48 columns.*32"):
        quantise_linears(build("llama"), Quant("int4"), "llama")


def test_fused_experts_are_refused():
    model = build("llama")
    model.experts = nn.Parameter(torch.zeros(4, 8, 8))
    with pytest.raises(PrerequisiteError, match=r"experts is one tensor \(4, 8, 8\)"):
        quantise_linears(model, INT8, "llama")


def test_a_network_without_linear_layers_is_refused():
    with pytest.raises(PrerequisiteError, match="no linear layer that could be quantised to int8"):
        quantise_linears(nn.Sequential(nn.Embedding(4, 4)), INT8, "embedding")

"""Every set of sampling kernels gives the same rows; FlashInfer's are those of a stand-in."""

import types

import pytest
import torch
from transformers.generation import logits_process as hf

from specbench.core.request import Sampling
from specbench.decoding.kernels.with_flashinfer import FlashInferKernels
from specbench.decoding.kernels.with_torch import TORCH
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import probabilities
from specbench.errors import PrerequisiteError
from specbench.models.sampler import sampler_named
from tests.models.fake_flashinfer import library

FLASHINFER = FlashInferKernels(library)
SETS = pytest.mark.parametrize("kernels", [TORCH, FLASHINFER], ids=lambda kernels: kernels.name)
SETTINGS = [
    Sampling(0.0),
    Sampling(0.7),
    Sampling(1.0, top_k=5),
    Sampling(1.0, top_k=1),
    Sampling(1.0, top_k=900),
    Sampling(1.0, top_p=0.9),
    Sampling(1.0, top_p=0.01),
    Sampling(1.3, top_k=40, top_p=0.8, min_p=0.02),
]


def rows(count=40, vocabulary=300, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, vocabulary, generator=generator) * 3


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("equals", [False, True], ids=["all different", "many equal"])
def test_both_give_the_same_rows(settings, equals):
    # In steps of a quarter hundreds of logits share a few dozen values.
    logits = (rows() * 4).round() / 4 if equals else rows()
    asked = [settings] * len(logits)
    found = probabilities(logits, asked, FLASHINFER)
    torch.testing.assert_close(found, probabilities(logits, asked), atol=1e-6, rtol=1e-5)
    assert torch.equal(found > 0, probabilities(logits, asked) > 0)


def test_rows_of_a_batch_may_differ_in_their_settings():
    logits = rows(len(SETTINGS))
    found = probabilities(logits, SETTINGS, FLASHINFER)
    torch.testing.assert_close(found, probabilities(logits, SETTINGS), atol=1e-6, rtol=1e-5)


@SETS
def test_what_equals_the_last_token_kept_stays_with_it(kernels):
    probs = torch.tensor([[0.1, 0.4, 0.2, 0.2, 0.1]])
    # The second and the third likeliest are equal: of two wanted, three stay, of mass 0.8.
    kept = torch.tensor([[0.0, 0.5, 0.25, 0.25, 0.0]])
    torch.testing.assert_close(kernels.top_k(probs, 2), kept)
    # 0.4 is short of a half, 0.6 would do.
    torch.testing.assert_close(kernels.top_p(probs, 0.5), kept)
    torch.testing.assert_close(kernels.top_p(probs, 0.3), torch.tensor([[0.0, 1, 0, 0, 0]]))


@SETS
def test_equal_tokens_at_the_border_of_top_k_are_kept_as_by_transformers(kernels):
    logits = (rows() * 4).round() / 4
    expected = torch.softmax(hf.TopKLogitsWarper(7)(None, logits), -1)
    found = probabilities(logits, [Sampling(1.0, top_k=7)] * len(logits), kernels)
    torch.testing.assert_close(found, expected)
    assert int((found > 0).sum(1).max()) > 7


@SETS
def test_tokens_at_minus_infinity_are_impossible(kernels):
    logits = rows(3, 9000)
    logits[:, 100:8500] = -torch.inf
    found = probabilities(logits, [Sampling(0.7)] * 3, kernels)
    assert not found[:, 100:8500].any()
    torch.testing.assert_close(found.sum(1), torch.ones(3))


def test_rows_cut_from_wider_ones_are_handed_over_whole():
    wide = rows()
    found = probabilities(wide[:, :200], [Sampling(0.7)] * len(wide), FLASHINFER)
    torch.testing.assert_close(found, torch.softmax(wide[:, :200] / 0.7, -1))


def test_sums_are_repeatable_where_the_version_can_do_that():
    heard = []

    def old(probs, top_k):
        return probs

    def new(probs, top_p, is_deterministic=False):
        heard.append(is_deterministic)
        return probs

    sampling = types.SimpleNamespace(softmax=None, top_k_renorm_probs=old, top_p_renorm_probs=new)
    kernels = FlashInferKernels(types.SimpleNamespace(sampling=sampling))
    kernels.top_k(torch.ones(1, 3), 2)
    kernels.top_p(torch.ones(1, 3), 0.5)
    assert heard == [True]


def test_all_views_of_target_rows_go_through_the_kernels():
    logits, index = rows(4), torch.arange(4)[:, None]
    settings = [Sampling(0.8, top_p=0.9)] * 4

    class Counting(FlashInferKernels):
        calls = 0

        def softmax(self, logits, temperature):
            self.calls += 1
            return super().softmax(logits, temperature)

    counting = Counting(library)
    found = TargetRows(logits, index, settings, kernels=counting)
    found.processed_rows([2])
    found.processed()
    found.tempered()
    assert counting.calls == 3
    assert found.repeat(1, 3, 0).kernels is counting


def test_the_sampler_is_found_by_name_and_refused_without_a_gpu():
    assert sampler_named("torch", "cpu") is TORCH
    with pytest.raises(PrerequisiteError, match="sampler = flashinfer runs on CUDA") as refused:
        sampler_named("flashinfer", "cpu")
    assert "leave target.sampler out" in refused.value.hint

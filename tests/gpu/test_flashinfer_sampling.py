"""FlashInfer's real sampling kernels on a GPU: rows against torch's, chains against their law."""

import pytest
import torch

from specbench.core.request import Sampling
from specbench.decoding.kernels.with_flashinfer import FlashInferKernels
from specbench.decoding.sampling import probabilities
from specbench.laws.outcome import Status
from specbench.laws.rules import DrawnRule
from specbench.laws.sampled import generator_outcomes
from specbench.laws.tables import TABLES
from specbench.verify.flashinfer_chain import chain_rule

pytestmark = pytest.mark.gpu
SETTINGS = [
    Sampling(0.7),
    Sampling(1.0, top_k=5),
    Sampling(1.0, top_k=900),
    Sampling(1.0, top_p=0.9),
    Sampling(0.6, top_k=50, top_p=0.9),
    Sampling(1.3, top_k=40, top_p=0.8, min_p=0.02),
]
SAMPLES = 100_000
"""Rounds per table: a defect of a few thousandths in total variation is found."""


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("flashinfer", reason="flashinfer is not installed")


def rows(count, vocabulary):
    generator = torch.Generator("cuda").manual_seed(0)
    return 3 * torch.randn(count, vocabulary, generator=generator, device="cuda")


@pytest.mark.parametrize("vocabulary", [300, 32_000, 151_936])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_rows_are_those_of_torch(library, settings, vocabulary):
    logits, asked = rows(32, vocabulary), [settings] * 32
    found = probabilities(logits, asked, FlashInferKernels(library))
    expected = probabilities(logits, asked)
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-3)
    # Sums round differently: the border of top-p may lie one token further.
    assert bool((((found > 0) != (expected > 0)).sum(1) <= 1).all())


def test_equal_tokens_at_a_border_stay_together(library):
    kernels = FlashInferKernels(library)
    probs = torch.tensor([[0.1, 0.4, 0.2, 0.2, 0.1]], device="cuda")
    kept = torch.tensor([[0.0, 0.5, 0.25, 0.25, 0.0]], device="cuda")
    torch.testing.assert_close(kernels.top_k(probs, 2), kept)
    torch.testing.assert_close(kernels.top_p(probs, 0.5), kept)


def test_stretches_of_minus_infinity_are_impossible(library):
    logits = rows(4, 128_256)
    logits[:, 4096:126_976] = -torch.inf
    found = FlashInferKernels(library).softmax(logits, 0.7)
    torch.testing.assert_close(found, torch.softmax(logits / 0.7, -1), atol=1e-6, rtol=1e-4)


def test_the_same_row_comes_out_the_same(library):
    logits, asked = rows(64, 151_936), [Sampling(0.8, top_k=200, top_p=0.95)] * 64
    kernels = FlashInferKernels(library)
    first = probabilities(logits, asked, kernels)
    assert all(torch.equal(first, probabilities(logits, asked, kernels)) for _ in range(10))


def test_chain_speculative_sampling_has_the_targets_law(library):
    sampler = DrawnRule(chain_rule(lambda device: library), torch.device("cuda"))
    found = list(generator_outcomes("flashinfer_chain", sampler, SAMPLES, seed=1))
    assert [one for one in found if one.status in (Status.FAILED, Status.TOO_FEW)] == []
    assert [one.case for one in found if one.check == "law"] == [table.name for table in TABLES]
    edges = [one for one in found if one.check == "edge"]
    assert len(edges) == 6
    caught = {one.case for one in found if one.check == "mutant" and one.status is Status.PASSED}
    assert {"residual from the target", "bonus without temperature"} <= caught

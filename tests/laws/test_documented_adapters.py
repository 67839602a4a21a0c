"""The adapters in docs/adding.md, as printed, around stand-ins with the engines' signatures."""

import re
import sys
from pathlib import Path

import pytest
import torch

from specbench.laws.adapters import GeneratorSampler
from specbench.laws.outcome import Status
from specbench.laws.sampled import generator_outcomes
from tests.laws import engines

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "adding.md").read_text("utf-8")


def documented(heading):
    """The Python block below a heading."""
    _, _, below = PAGE.partition(f"\n### {heading}\n")
    return re.search(r"```python\n(.*?)```", below, re.DOTALL)[1]


def outcomes(monkeypatch, heading, modules, samples=40_000):
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    names = {}
    exec(compile(documented(heading), heading, "exec"), names)
    sampler = GeneratorSampler(names["verify"], torch.device("cpu"))
    return list(generator_outcomes(heading, sampler, samples, seed=3))


@pytest.mark.parametrize("heading", ["vLLM", "FlashInfer"])
def test_adapters_fit_on_a_screen(heading):
    assert len(documented(heading).splitlines()) <= 40


@pytest.mark.parametrize(
    ("heading", "modules"),
    [
        ("vLLM", engines.vllm()),
        ("vLLM", engines.vllm(logits=True)),
        ("FlashInfer", engines.flashinfer()),
    ],
)
def test_a_right_engine_passes(monkeypatch, heading, modules):
    found = outcomes(monkeypatch, heading, modules, 100_000)
    assert [o for o in found if o.status in (Status.FAILED, Status.TOO_FEW)] == []
    caught = [o.case for o in found if o.check == "mutant" and o.status is Status.PASSED]
    assert "residual from the target" in caught
    assert "noise repeated every round" in caught


@pytest.mark.parametrize("logits", [False, True])
def test_a_residual_from_the_target_is_found_through_the_vllm_adapter(monkeypatch, logits):
    found = outcomes(monkeypatch, "vLLM", engines.vllm(broken=True, logits=logits))
    failed = {o.case for o in found if o.status is Status.FAILED}
    assert {"three tokens, K=3", "argmax draft, three tokens, K=3"} <= failed


def test_padding_taken_for_a_token_is_found_through_the_flashinfer_adapter(monkeypatch):
    found = outcomes(monkeypatch, "FlashInfer", engines.flashinfer(broken=True))
    failed = {o.case for o in found if o.status is Status.FAILED}
    assert failed == {
        "draft id -1, four tokens, K=2",
        "draft id -1, argmax draft, four tokens, K=2",
    }

"""The native engine on FlashInfer's plans, with a stand-in for the library, against sdpa."""

import pytest
import torch

from specbench.core.arm import ArmSpec
from specbench.engines.native import open_engine
from specbench.models import kernel_library
from specbench.models.attention import flashinfer
from tests.engines.conftest import K
from tests.engines.native_runs import requests, run
from tests.models.fake_flashinfer import library

pytestmark = pytest.mark.usefixtures("one_thread")
TREE = {"tree": [[0], [1], [0, 0], [0, 1], [1, 0]]}
ARMS = (
    ArmSpec("plain"),
    ArmSpec("lookup", "ngram", K, "rejection", drafter_options={"min_n": 1, "max_n": 3}),
    ArmSpec("exit", "layer_skip", 2, "multi_round", drafter_options={"layers": 1, **TREE}),
    ArmSpec("head", "eagle1", 2, "multi_round", drafter_options={"model": "untrained", **TREE}),
)


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(library, "made", [])
    monkeypatch.setattr(library, "plans", [])
    monkeypatch.setattr(kernel_library, "require_library", lambda *asked: library)
    monkeypatch.setattr(flashinfer, "DTYPES", (torch.float32,))
    monkeypatch.setattr(flashinfer, "HEAD_SIZES", (8,))


@pytest.mark.parametrize("apart_from", [0, 10**9], ids=["prefix apart", "behind a mask"])
def test_every_arm_decodes_what_it_decodes_on_sdpa(stand_in, tiny_target, monkeypatch, apart_from):
    monkeypatch.setattr(flashinfer, "APART_FROM", apart_from)
    settings = {"model": str(tiny_target)}
    reference = open_engine(settings, ARMS)
    engine = open_engine(settings | {"attention": "flashinfer"}, ARMS)
    assert engine.describe()["attention"] == "flashinfer"
    asked = requests(0.8, prompts=5)
    for arm in ARMS:
        library.plans.clear()
        expected = run(reference, arm.name, asked, 3)
        assert library.plans == []
        found = run(engine, arm.name, asked, 3)
        assert set(library.plans)
        assert {i: t.output_ids for i, t in found.items()} == {
            i: t.output_ids for i, t in expected.items()
        }
        assert {i: t.steps.accepted for i, t in found.items()} == {
            i: t.steps.accepted for i, t in expected.items()
        }

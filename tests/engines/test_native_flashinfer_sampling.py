"""The native engine on FlashInfer's sampling kernels, with a stand-in for the library."""

from dataclasses import replace

import pytest

from specbench.core.arm import ArmSpec
from specbench.core.request import Sampling
from specbench.engines.native import open_engine
from specbench.models import kernel_library
from specbench.verify import flashinfer_chain
from tests.engines.conftest import K
from tests.engines.native_runs import observed, requests, run
from tests.models import fake_flashinfer_sampling
from tests.models.fake_flashinfer import library

pytestmark = pytest.mark.usefixtures("one_thread")
LOOKUP = {"min_n": 1, "max_n": 3}
TRUNCATED = Sampling(0.8, top_k=30, top_p=0.9, min_p=0.01)


@pytest.fixture
def stand_in(monkeypatch):
    monkeypatch.setattr(kernel_library, "require_library", lambda *asked: library)
    monkeypatch.setattr(flashinfer_chain, "require_library", lambda *asked: library)


def arms(folder):
    """Plain, a lookup and drafts that are drawn, from one model and from two."""
    model, two = {"model": str(folder)}, {"models": [str(folder)] * 2}
    return (
        ArmSpec("plain"),
        ArmSpec("lookup", "ngram", K, "target_match", drafter_options=LOOKUP),
        ArmSpec("drawn", "draft_model", 2, "rejection", drafter_options=model),
        ArmSpec("several", "multi_draft", 2, "multi_round", drafter_options=two),
    )


def truncated(prompts=5):
    return [replace(one, sampling=TRUNCATED) for one in requests(0.8, prompts=prompts)]


def test_every_arm_decodes_what_it_decodes_on_torch(stand_in, tiny_target, monkeypatch):
    used = []
    kernel = fake_flashinfer_sampling.library.top_p_renorm_probs

    def counted(*arguments, **named):
        used.append(arguments)
        return kernel(*arguments, **named)

    settings = {"model": str(tiny_target)}
    reference = open_engine(settings, arms(tiny_target))
    monkeypatch.setattr(fake_flashinfer_sampling.library, "top_p_renorm_probs", counted)
    engine = open_engine(settings | {"sampler": "flashinfer"}, arms(tiny_target))
    assert reference.describe()["sampler"] == "torch"
    assert engine.describe()["sampler"] == "flashinfer"
    for arm in arms(tiny_target):
        used.clear()
        expected = run(reference, arm.name, truncated(), 3)
        assert used == []
        found = run(engine, arm.name, truncated(), 3)
        assert used
        assert {i: t.output_ids for i, t in found.items()} == {
            i: t.output_ids for i, t in expected.items()
        }


def chains(folder):
    """Plain, and the kernel over drafts of both laws."""
    model = {"model": str(folder)}
    return (
        ArmSpec("plain"),
        ArmSpec("lookup", "ngram", K, "flashinfer_chain", drafter_options=LOOKUP),
        ArmSpec("drawn", "draft_model", 2, "flashinfer_chain", drafter_options=model),
    )


def test_the_chain_kernel_decodes_whole_requests(stand_in, tiny_target):
    engine = open_engine({"model": str(tiny_target)}, chains(tiny_target))
    plain = run(engine, "plain", requests(0.0), 3)
    for arm in ("lookup", "drawn"):
        cold = run(engine, arm, requests(0.0), 3)
        assert {i: t.output_ids for i, t in cold.items()} == {
            i: t.output_ids for i, t in plain.items()
        }
        warm = run(engine, arm, truncated(9), 3)
        assert all(trace.ok for trace in warm.values())
        # A draft of the target's own weights is drawn from the target's rows.
        accepted = sum(sum(trace.steps.accepted) for trace in warm.values())
        drafted = sum(sum(trace.steps.judged) for trace in warm.values())
        assert arm != "drawn" or accepted == drafted > 0


def test_alone_in_the_batch_a_request_depends_on_itself(stand_in, tiny_target):
    engine = open_engine({"model": str(tiny_target)}, chains(tiny_target))
    together = run(engine, "lookup", truncated(4), 1)
    for one in truncated(4):
        (alone,) = run(engine, "lookup", [one], 1).values()
        assert observed(alone) == observed(together[one.key.item])

"""Two processes share a model: what comes out is what one process computes."""

import pytest
import torch

from specbench.models.packed import PackedModel
from tests.models.parallel.processes import ROOT, run_group
from tests.models.parallel.scenario import FAMILIES, WIDE, forwards, model_of

pytestmark = pytest.mark.usefixtures("one_thread")
SCENARIO = str(ROOT / "tests/models/parallel/scenario.py")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Family -> logits, from two processes."""
    path = tmp_path_factory.mktemp("shared") / "logits.pt"
    for code, out, errors in run_group([SCENARIO, str(path)]):
        assert (code, out) == (0, ""), errors
    return torch.load(path)


@pytest.mark.parametrize("family", FAMILIES)
def test_prompts_chains_trees_and_moved_rows(shared, family):
    expected = forwards(PackedModel(model_of(family), "target"))
    assert [len(logits) for logits in expected] == [3, 2, 4, 0, 5, 2, WIDE]
    for found, wanted in zip(shared[family], expected, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("when", "codes", "told"),
    [
        ("between", (1, 7), "a process of the tensor-parallel group is gone"),
        ("inside", (1, 7), "a forward that several processes share has failed"),
        ("fails", (1, 1), "a forward that several processes share has failed: out of memory"),
    ],
)
def test_what_breaks_one_process_ends_all(tmp_path, when, codes, told):
    """The scheduler fails requests one by one for errors of torch; this is none of them."""
    found = run_group([SCENARIO, str(tmp_path / "none"), when])
    assert tuple(code for code, _, _ in found) == codes
    assert f"SpecbenchError: {told}" in found[0][2]

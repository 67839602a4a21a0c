"""Layers that are compiled one by one compute what they did."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, AttentionInterface

from specbench.decoding.protocols import Tap
from specbench.models.attention.called import NAME, attend, attention_name
from specbench.models.compiled import compile_layers
from specbench.models.kv_pool import KVPool
from specbench.models.packed import PackedModel
from specbench.models.packed_batch import Segment, pack
from tests.models.families import build

TAPS = (Tap(-1, "final"), Tap(1, "entering"), Tap(0, "leaving"))
ROOT = Path(__file__).parents[2]
TREE = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 0, 1]], dtype=torch.bool)
FORWARDS = (
    [Segment(0, 0, 5), Segment(1, 0, 3)],
    [Segment(0, 5, 1), Segment(1, 3, 1)],
    [Segment(1, 4, 4), Segment(0, 6, 2)],
    [Segment(1, 5, 3, TREE, torch.tensor([0, 1, 1]))],
)


def opened(compiled):
    model = build("qwen2")
    packed = PackedModel(model, "target")
    if compiled:
        compile_layers(model)
    pool = KVPool(2, 64, torch.float32, torch.device("cpu"))
    pool.add_owner("target", packed.geometry())
    packed.use(pool)
    return packed


def compare():
    plain, compiled = opened(False), opened(True)
    for segments in FORWARDS:
        ids = torch.arange(1, 1 + sum(segment.count for segment in segments))
        wanted, _ = plain.forward(pack(segments, ids, "all"))
        found, _ = compiled.forward(pack(segments, ids, "all"))
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-5)
    print(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    # Hooks that come and go after a layer was compiled still see its hidden states.
    for taps in (TAPS, (), TAPS):
        ids = torch.arange(1, 4)
        _, wanted = plain.forward(pack([Segment(0, 8, 3)], ids, "all"), taps)
        _, found = compiled.forward(pack([Segment(0, 8, 3)], ids, "all"), taps)
        assert list(found) == list(taps)
        for tap in taps:
            torch.testing.assert_close(found[tap], wanted[tap], atol=1e-4, rtol=1e-5)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler for torch.compile")
def test_prompts_chains_and_trees_have_the_same_logits():
    """In a process of its own: the compiler minds which modules were imported before it."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    # Three layers, one code: what differs from layer to layer and step to step is not compiled in.
    assert 1 <= int(done.stdout) <= 8


# What torch's compiler imports warns of torch's own older parts.
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_what_is_built_after_compiling_leaves_compiled_layers_their_attention(monkeypatch):
    """A head, or a second model, once put the attention back that compilers do not go around."""
    known = AttentionInterface._global_mapping
    monkeypatch.setattr(AttentionInterface, "_global_mapping", known | {NAME: attend})
    compile_layers(build("qwen2"))
    around = ALL_ATTENTION_FUNCTIONS[NAME]
    assert around is not attend
    assert attention_name() == NAME
    PackedModel(build("llama"), "draft")
    compile_layers(build("llama"))
    assert ALL_ATTENTION_FUNCTIONS[NAME] is around


if __name__ == "__main__":
    compare()

"""FlashInfer's kernels: how long their modules take to build, and what they gain over torch's."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from specbench.models.attention import flashinfer
from specbench.models.attention.backend import Attention
from specbench.models.attention.flashinfer import FlashInfer, require_flashinfer
from specbench.models.attention.sdpa import SDPA
from specbench.models.packed_batch import Segment, pack

from .figures import Report
from .stage import Stage
from .timing import interleaved

BUILD_SECONDS = 180
"""After so long the check goes on without FlashInfer."""
BUILD = "import scripts.gpu.kernels as kernels; kernels.touch()"


def start_building(device: torch.device) -> subprocess.Popen[bytes] | str:
    """Begin to build the modules, beside everything else; or why not."""
    if device.type != "cuda":
        return "FlashInfer runs on CUDA devices"
    if importlib.util.find_spec("flashinfer") is None:
        return "flashinfer is not installed"
    return subprocess.Popen([sys.executable, "-c", BUILD])


def touch() -> None:
    """Plan and run every kind of call once: decode, causal, masked, and prefix with tree."""
    device = torch.device("cuda")
    backend = FlashInfer(require_flashinfer(device), device)
    for name, segments in {
        "single": [Segment(0, 64, 1)],
        "chain": [Segment(0, 64, 4)],
        "tree": [_tree(0, 64, 8)],
    }.items():
        start = time.monotonic()
        _layer(backend, segments, device)()
        torch.cuda.synchronize()
        print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)


def built(process: subprocess.Popen[bytes] | str, begun: float, report: Report) -> bool:
    """Wait for the build as long as it may take; whether FlashInfer can be used."""
    if isinstance(process, str):
        report.skipped["flashinfer"] = process
        return False
    try:
        code = process.wait(max(1.0, BUILD_SECONDS - (time.monotonic() - begun)))
    except subprocess.TimeoutExpired:
        process.kill()
        report.skipped["flashinfer"] = f"its modules were not built in {BUILD_SECONDS} s"
        return False
    seconds = time.monotonic() - begun
    if code:
        report.skipped["flashinfer"] = f"building its modules ended with exit code {code}"
        return False
    report.add("building its modules", seconds, "s", "beside the other parts", aim=BUILD_SECONDS)
    return True


def attention(stage: Stage, report: Report) -> None:
    """Chains on both back ends at a long context, trees against chains, and what masks cost."""
    sizes, device = stage.sizes, stage.device
    backend: Attention = FlashInfer(require_flashinfer(device), device)
    chain = [Segment(0, sizes.long, sizes.rows)]
    works = {
        "sdpa": _layer(SDPA, chain, device, stage),
        "flashinfer": _layer(backend, chain, device, stage),
    }
    times = interleaved(works, sizes.repeats, device)
    how = f"attention of all layers, {sizes.rows} rows behind {sizes.long}, planning included"
    for name, time_ in times.items():
        report.timed(f"chain on {name}", time_, how)
    gain = times["sdpa"].over(times["flashinfer"])
    report.add("flashinfer over sdpa", gain, "x", how, aim=1.3, least=True)

    nodes, context = sizes.tree
    works = {
        "chain": _layer(backend, [Segment(0, context, nodes)], device, stage),
        "tree": _layer(backend, [_tree(0, context, nodes)], device, stage),
    }
    times = interleaved(works, sizes.repeats, device)
    how = f"{nodes} rows behind {context}"
    report.add("tree over chain", times["tree"].over(times["chain"]), "x", how, aim=1.15)
    for context in sizes.contexts:
        _masks(stage, report, backend, nodes, context)


def _masks(stage: Stage, report: Report, backend: Attention, nodes: int, context: int) -> None:
    """A tree behind one mask, and read in two calls, against a chain of as many rows."""
    tree = [_tree(0, context, nodes)]

    def apart_from(rows: int, work: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            flashinfer.APART_FROM = rows
            work()

        return run

    works = {
        "chain": _layer(backend, [Segment(0, context, nodes)], stage.device, stage),
        "masked": apart_from(2**40, _layer(backend, tree, stage.device, stage)),
        "apart": apart_from(0, _layer(backend, tree, stage.device, stage)),
    }
    kept = flashinfer.APART_FROM
    try:
        times = interleaved(works, stage.sizes.repeats, stage.device)
    finally:
        flashinfer.APART_FROM = kept
    for name in ("masked", "apart"):
        how = f"{nodes} nodes, over a chain of as many rows"
        report.add(f"{name} at {context}", times[name].over(times["chain"]), "x", how)


def _layer(
    backend: Attention, segments: list[Segment], device: torch.device, stage: Stage | None = None
) -> Callable[[], object]:
    """Plan one forward and run the attention of all its layers."""
    from specbench.models.kv_pool import KVPool, LayerGeometry

    config: Any = None if stage is None else stage.target.config
    heads = 32 if config is None else config.num_attention_heads
    kv_heads = 8 if config is None else config.num_key_value_heads
    size = 128 if config is None else config.hidden_size // heads
    layers = 1 if config is None else config.num_hidden_layers
    dtype = torch.bfloat16 if stage is None else stage.dtype
    rows = -(-max(s.start + s.count for s in segments) // 16) * 16
    # One layer's storage stands for all: what is read is as much, and cold enough at this size.
    pool = KVPool(1, rows, dtype, device)
    pool.add_owner("target", [LayerGeometry(kv_heads, size, size)])
    for part in pool.layer("target", 0):
        part.normal_()
    tokens = sum(segment.count for segment in segments)
    batch = pack(segments, torch.zeros(tokens, dtype=torch.int64), "all").to(device)
    query = torch.randn(1, heads, tokens, size, dtype=dtype, device=device)
    new = torch.randn(1, kv_heads, tokens, size, dtype=dtype, device=device)

    def run() -> None:
        plan = backend.plan(pool, "target", batch)
        for _ in range(layers):
            plan.run(0, query, new, new, size**-0.5, None)

    return run


def _tree(slab: int, start: int, nodes: int) -> Segment:
    """A root with a random tree below it."""
    chance = random.Random(0)
    visible = np.eye(nodes, dtype=bool)
    depths = [0] * nodes
    for node in range(1, nodes):
        parent = chance.randrange(node)
        visible[node] |= visible[parent]
        depths[node] = depths[parent] + 1
    return Segment(slab, start, nodes, torch.from_numpy(visible), torch.tensor(depths))

"""One-token MTP under the overlapped schedule: what waits, and how long the device is idle."""

from __future__ import annotations

import statistics
from typing import Any

import torch

from specbench.decoding.loop import DecodeLoop
from specbench.decoding.schedule import Overlapped
from specbench.drafters.draft_rows import DraftRows
from specbench.drafters.features.drafter import FeatureDrafter
from specbench.drafters.grow.chain import Chain
from specbench.metrics.phases import hidden_share
from specbench.models.device import recorder_for
from specbench.models.target import PackedTarget
from specbench.verify.greedy import RULE as GREEDY

from .figures import Report
from .stage import Stage

WARM_UPS, STEPS = 6, 12
NO_QUEUE = "the device has no queue that runs behind the host"


def overlap(stage: Stage, report: Report) -> None:
    """Steps of a batch whose requests all draft one token."""
    sizes, graphs = stage.sizes, stage.graphs()
    target, head = stage.packed(graphs), stage.mtp_head(graphs)
    tokens = 2 * (WARM_UPS + 2 * STEPS) + 8
    pool = stage.pool([target, head], sizes.batch, sizes.context + tokens + 4)
    rows_of = DraftRows(sizes.target["vocab_size"], deferred=True)
    drafter = FeatureDrafter(head, Chain(rows_of, False), 10**6)
    recorder = recorder_for(stage.device, overlapped=True, spans=True)
    if graphs is not None:
        recorder.forwards = graphs.forwards
        graphs.capturing = True
    loop = DecodeLoop(
        PackedTarget(target, stage.device), drafter, GREEDY, 1, recorder, False, Overlapped()
    )
    rows = stage.requests(pool, sizes.batch, tokens, 0.0)
    loop.prefill(rows)
    for _ in range(WARM_UPS):
        loop.step(rows)
    if graphs is not None:
        graphs.capturing = False
    recorder.drain()
    if stage.device.type != "cuda":
        loop.step(rows)
        report.skipped["waiting and idle time"] = NO_QUEUE
        return
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(STEPS):
            loop.step(rows)
        waited = 0.0
    except RuntimeError as error:
        report.skipped["steps without waiting"] = str(error).splitlines()[0]
        waited = 1.0
    finally:
        torch.cuda.set_sync_debug_mode("default")
    how = f"set_sync_debug_mode('error') over {STEPS} steps of {sizes.batch} requests"
    report.add("steps that wait for more than their outcome", waited, "1", how, aim=0.0)
    share = hidden_share(recorder.drain())
    if share.known:
        report.add("host work that is hidden", share.number(), "1", "hidden_share of those steps")
    idle = _idle(loop, rows)
    how = f"longest gap between kernels of a step, median of {STEPS} steps in a profiler trace"
    report.add("device idle between two forwards", idle, "us", how, aim=100.0)


def _idle(loop: DecodeLoop, rows: list[Any]) -> float:
    """Median over steps of the longest gap between two kernels, in microseconds."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as traced:
        for _ in range(STEPS):
            loop.step(rows)
        torch.cuda.synchronize()
    spans = sorted(
        (event.time_range.start, event.time_range.end)
        for event in traced.events()
        if str(event.device_type).endswith("CUDA")
    )
    gaps: list[float] = []
    reached: float = spans[0][1]
    for start, end in spans[1:]:
        gaps.append(max(0.0, start - reached))
        reached = max(reached, end)
    # One gap per step is the longest: that before its first forward.
    return statistics.median(sorted(gaps)[-STEPS:])

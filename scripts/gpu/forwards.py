"""Forwards of the target against what the memory allows: plain, verifying, captured, compiled."""

from __future__ import annotations

from collections.abc import Callable

import torch

from specbench.models.compiled import compile_layers
from specbench.models.packed import PackedModel
from specbench.models.packed_batch import Segment, pack
from specbench.roofline.cost import Load

from .figures import Report
from .stage import Stage
from .timing import Timed, interleaved

NO_GRAPHS = "the device has no CUDA graphs"


def rates(stage: Stage, report: Report) -> None:
    """What the memory and the arithmetic of the device give."""
    device = stage.placed.device
    report.add("memory", device.bandwidth / 1e9, "GB/s", device.source)
    for dtype, peak in device.peaks.items():
        report.add(f"matrix products in {dtype}", peak / 1e12, "TFLOP/s", device.source)
    bound = stage.placed.seconds(Load(1, 1, stage.sizes.context)) * 1e3
    report.add("bound of a plain step", bound, "ms", "bytes of a forward at that rate")


def forward_of(
    model: PackedModel, batch: int, rows: int, context: int, vocabulary: int
) -> Callable[[], object]:
    """A forward of ``rows`` tokens for each of ``batch`` requests behind ``context`` others."""
    segments = [Segment(slab, context, rows) for slab in range(batch)]
    ids = torch.arange(batch * rows) % vocabulary
    return lambda: model.forward(pack(segments, ids, "all"))


def forwards(stage: Stage, report: Report) -> None:
    """Eager and captured forwards of 1 and K + 1 rows, for one request and for a batch."""
    sizes = stage.sizes
    variants = {"eager": stage.packed()}
    graphs = stage.graphs()
    if graphs is None:
        report.skipped["graphs"] = NO_GRAPHS
    else:
        graphs.capturing = True
        variants["graphs"] = stage.packed(graphs)
    times = _timed(stage, variants)
    for (variant, batch, rows), time in times.items():
        bound = stage.placed.seconds(Load(batch, rows, sizes.context)) * 1e3
        what = f"{variant}, {batch} x {rows} rows"
        report.timed(what, time, f"a forward, context {sizes.context}")
        aim = 1.8 if (variant, batch, rows) == ("graphs", 1, 1) else None
        if (variant, batch, rows) == ("graphs", sizes.batch, sizes.rows):
            aim = 1.25
        report.add(f"{what}: over its bound", time.median / bound, "x", "ratio", aim=aim)
    fastest = "graphs" if "graphs" in variants else "eager"
    for batch in (1, sizes.batch):
        ratio = times[fastest, batch, sizes.rows].over(times[fastest, batch, 1])
        name = f"v({sizes.rows}), {fastest}, batch {batch}"
        aim = 1.1 if batch == 1 else None
        report.add(name, ratio, "x", "time of that many rows over that of one", aim=aim)


def compiled(stage: Stage, report: Report) -> None:
    """The same with layers compiled, captured where that is possible; layers stay compiled."""
    graphs = stage.graphs()
    model = stage.packed(graphs)
    stage.pool([model], 1, stage.sizes.context + stage.sizes.rows)
    compile_layers(stage.target)
    work = forward_of(model, 1, 1, stage.sizes.context, stage.sizes.target["vocab_size"])
    work()
    if graphs is not None:
        graphs.capturing = True
    time = interleaved({"one": work}, stage.sizes.repeats, stage.device)["one"]
    bound = stage.placed.seconds(Load(1, 1, stage.sizes.context)) * 1e3
    how = "compiled layers" + ("" if graphs is None else " in a graph")
    report.timed("compiled, 1 x 1 rows", time, how)
    report.add("compiled, 1 x 1 rows: over its bound", time.median / bound, "x", how, aim=1.25)


def _timed(stage: Stage, variants: dict[str, PackedModel]) -> dict[tuple[str, int, int], Timed]:
    sizes = stage.sizes
    times: dict[tuple[str, int, int], Timed] = {}
    for batch in (1, sizes.batch):
        for model in variants.values():
            stage.pool([model], batch, sizes.context + sizes.rows)
        works = {
            (name, batch, rows): forward_of(
                model, batch, rows, sizes.context, sizes.target["vocab_size"]
            )
            for name, model in variants.items()
            for rows in (1, sizes.rows)
        }
        named = {str(key): work for key, work in works.items()}
        found = interleaved(named, sizes.repeats, stage.device)
        times |= {key: found[str(key)] for key in works}
    return times

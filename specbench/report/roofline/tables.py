"""The tables of a roofline: rows as data, unrounded, and what to know below each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specbench.roofline.bound import MOST_ROWS, Placed, Timed
from specbench.roofline.memory import Room, kv_token_bytes, weight_bytes
from specbench.roofline.speculation import Best
from specbench.roofline.study import Grid, Loaded, Width

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Section:
    """One table.

    Attributes:
        name: its key in documents.
        title: what it shows.
        rows: of numbers, not rounded.
        shown: rows for people; None where they are the same ones, rounded.
        remarks: lines below it.
    """

    name: str
    title: str
    rows: Sequence[Row]
    shown: Sequence[Row] | None = None
    remarks: Sequence[str] = ()

    def for_people(self) -> list[dict[str, str]]:
        """The rows as text, three digits of what is not whole."""
        return [
            {key: _shown(value) for key, value in row.items()} for row in self.shown or self.rows
        ]


def _shown(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def forward_section(timed: Sequence[Timed], target: Placed, grid: Grid) -> Section:
    """A forward of one row per request, by part."""
    rows = [_part(one) for one in timed]
    seconds = sum(one.seconds for one in timed)
    size = sum(one.part.bytes for one in timed)
    flops = sum(one.part.flops for one in timed)
    rows.append(
        {
            "part": "all",
            "GB": size / 1e9,
            "GFLOP": flops / 1e9,
            "FLOP/B": flops / size,
            "ms": seconds * 1e3,
            "limit": "",
        }
    )
    title = (
        f"a forward of plain decoding: batch {grid.batches[0]}, context {grid.contexts[0]}, "
        "one row per request"
    )
    return Section("forward", title, rows)


def _part(one: Timed) -> dict[str, object]:
    return {
        "part": one.part.name,
        "GB": one.part.bytes / 1e9,
        "GFLOP": one.part.flops / 1e9,
        "FLOP/B": one.part.flops / one.part.bytes,
        "ms": one.seconds * 1e3,
        "limit": one.limit,
    }


def widths_section(found: Sequence[Width], target: Placed) -> Section:
    """Rows of a forward against its cost."""
    rows: list[dict[str, object]] = []
    for width in found:
        row: dict[str, object] = {"rows": width.rows, "computed": width.padded}
        if width.experts is not None:
            row["experts met"] = width.experts
        rows.append(row | {"cost": width.cost})
    tile = target.device.rows(target.precision.dtype)
    free = target.free_rows
    say = f"reading the layers' matrices takes as long as computing {free} rows"
    if tile > 1:
        say += f", {free // tile} tile{'s' if free > tile else ''} of {tile}; "
        say += "within a tile more rows are free in any case"
    remarks = [say]
    if any(width.experts is not None for width in found):
        remarks.append(
            "experts as if every choice were as likely: tokens that follow each other share more, "
            "so that costs of few rows are estimates and no lower bounds"
        )
    title = "what more rows cost, in forwards of one row, attention left out"
    return Section("rows", title, rows, remarks=remarks)


def loads_section(found: Sequence[Loaded], held: Mapping[int, Room], grid: Grid) -> Section:
    """Every batch and context: plain decoding, and how many rows a verification may have."""
    rows = [
        {
            "context": one.context,
            "batch": one.batch,
            "ITL ms": one.seconds * 1e3,
            "tok/s user": 1 / one.seconds,
            "tok/s all": one.batch / one.seconds,
            "limit": one.limit,
            "rows": one.budget,
            "fits": "yes" if held[one.context].holds(one.batch) else "no",
        }
        for one in found
    ]
    title = (
        f"lower bound of the ITL of plain decoding; most rows per request within "
        f"{grid.slack:.0%} of it (1 + drafted tokens)"
    )
    most = any(one.budget == MOST_ROWS for one in found)
    return Section("loads", title, rows, remarks=[f"{MOST_ROWS} rows or more"] if most else [])


def speedups_section(found: Sequence[Loaded], grid: Grid, drafted: str) -> Section:
    """Best K and speed-up by acceptance; break-even acceptance."""
    rows = [
        {
            "context": one.context,
            "batch": one.batch,
            "break-even": one.break_even,
            "acceptance": acceptance,
            "K": chosen.k,
            "speed-up": chosen.speedup,
            "d": one.steps[chosen.k - 1].d if chosen.k else 0.0,
            "v": one.steps[chosen.k - 1].v if chosen.k else 1.0,
        }
        for one in found
        for acceptance, chosen in zip(grid.acceptances, one.best, strict=True)
    ]
    shown = [
        {
            "context": one.context,
            "batch": one.batch,
            "break-even": "none" if one.break_even is None else f"{one.break_even:.2f}",
            **{
                f"a = {acceptance:g}": _choice(chosen)
                for acceptance, chosen in zip(grid.acceptances, one.best, strict=True)
            },
        }
        for one in found
    ]
    title = (
        f"predicted speed-up at the best K up to {len(found[0].steps)}, by acceptance a; {drafted}"
    )
    remarks = [
        "break-even: acceptance above which some K is faster than plain",
        "every drafted token is accepted with chance a, whatever came before; no cost of the host",
    ]
    return Section("speedups", title, rows, shown, remarks)


def _choice(chosen: Best) -> str:
    return f"K {chosen.k}: {chosen.speedup:.2f}x" if chosen.k else "plain"


def memory_section(
    found: Mapping[int, Room], target: Placed, draft: Placed | None, grid: Grid
) -> Section:
    """How many requests fit, without and with the draft."""
    rows = []
    for context, held in found.items():
        row: dict[str, object] = {"context": context, "requests": _count(held.alone)}
        if draft:
            row |= {"with the draft": _count(held.together), "lost": _count(held.lost)}
        rows.append(row)
    remarks = [_held("target", target)] + ([_held("draft", draft)] if draft else [])
    title = (
        f"requests that fit into {grid.usable:.0%} of {target.device.memory / 1e9:.4g} GB beside "
        "the weights"
    )
    return Section("memory", title, rows, remarks=remarks)


def _count(number: int | None) -> object:
    return "weights do not fit" if number is None else number


def _held(who: str, model: Placed) -> str:
    weights = weight_bytes(model.shape, model.precision) / 1e9
    return (
        f"{who}: weights {weights:.4g} GB, KV "
        f"{kv_token_bytes(model.shape, model.precision) / 1024:.4g} KiB per token"
    )


def device_line(target: Placed) -> str:
    """The device in a line: bandwidth, rate, ridge, source."""
    device, dtype = target.device, target.precision.dtype
    count = f"{device.count} x " if device.count > 1 else ""
    return (
        f"device: {count}{device.title}, {_rate(device.bandwidth)}B/s, "
        f"{_rate(device.peaks[dtype])}FLOP/s in {dtype} (dense), ridge "
        f"{device.ridge(dtype):.0f} FLOP/B; {device.source}"
    )


def _rate(value: float) -> str:
    """A number per second with its prefix, such as ``4.8 T``."""
    if value >= 1e15:
        return f"{value / 1e15:.4g} P"
    return f"{value / 1e12:.4g} T" if value >= 1e12 else f"{value / 1e9:.4g} G"


def model_line(who: str, model: Placed) -> str:
    """A model in a line: parameters, and how they are stored."""
    shape, precision = model.shape, model.precision
    active = ""
    if shape.expert_parameters:
        active = f", {shape.active / 1e9:.4g} B of them for each token"
    stored = f"{precision.matrix_bits:g}-bit layers"
    if shape.expert_parameters and precision.expert_bits != precision.matrix_bits:
        stored += f", {precision.expert_bits:g}-bit experts"
    return (
        f"{who}: {shape.name}, {shape.parameters / 1e9:.4g} B parameters{active}; {stored}, "
        f"{precision.kv_bits:g}-bit KV, multiplied in {precision.dtype}"
    )

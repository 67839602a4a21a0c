"""One call of `specbench roofline`: what is asked, computed, printed and drawn."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from specbench.catalog import nearest
from specbench.cli.rows import markdown, simple, write
from specbench.errors import PrerequisiteError, UsageError
from specbench.experiment.sweep.asked import whole_numbers
from specbench.models.shapes.draft import draft_of
from specbench.models.shapes.find import configuration, require_model
from specbench.models.shapes.read import read_shape
from specbench.models.shapes.stored import Wanted, read_precision
from specbench.report.roofline import tables
from specbench.report.roofline.tables import Section
from specbench.roofline import study
from specbench.roofline.bound import Placed
from specbench.roofline.cost import Precision
from specbench.roofline.devices import DEVICES, Device
from specbench.roofline.memory import Stored
from specbench.roofline.speculation import Drafting, by_model, share_of
from specbench.roofline.study import Grid

MEASURED = "measured"
SECONDS = 10.0
"""Allowed for measuring a machine."""


@dataclass(frozen=True, slots=True)
class Call:
    """What one call computes with; ``drafted`` says in words where the draft's costs are from."""

    target: Placed
    draft: Placed | None
    drafting: Drafting
    drafted: str
    grid: Grid

    @classmethod
    def of(cls, name: str, options: Mapping[str, Any]) -> Call:
        """From the command line.

        Raises:
            UsageError: an unknown device or model, or options that do not go together.
            PrerequisiteError: a configuration that is not here or cannot be read.
        """
        grid = _grid(options)
        cost = options["draft_cost"]
        if cost is not None and options["draft"] is not None:
            raise UsageError(
                "--draft-cost beside --draft", "the draft's cost follows from its shape"
            )
        if options["draft_vocab"] is not None and options["draft"] is None:
            raise UsageError("--draft-vocab without a draft", "add --draft eagle3")
        wanted = Wanted(options["dtype"], options["kv_dtype"], options["bits"])
        found = configuration(name)
        require_model(found)
        stored = read_shape(found.config, name), read_precision(found.config, wanted, name)
        draft = None
        if options["draft"] is not None:
            draft = draft_of(options["draft"], found, stored, wanted, options["draft_vocab"])
        device = _device(options["device"], options["devices"], [stored, draft])
        target = Placed(*stored, device)
        if draft is None:
            words = f"a drafted token costs {cost:g} forwards" if cost else "drafted for nothing"
            return cls(target, None, share_of(target, cost or 0.0), words, grid)
        placed = Placed(*draft, device)
        if placed.shape.answers > 1:
            longest = min(grid.longest, placed.shape.answers)
            grid = Grid(**{**simple(grid), "longest": longest})
        return cls(target, placed, by_model(placed), f"drafted by {placed.shape.name}", grid)

    def sections(self) -> list[Section]:
        """All tables."""
        loads = study.loads(self.target, self.drafting, self.grid)
        stored = (self.draft.shape, self.draft.precision) if self.draft else None
        rooms = study.rooms(self.target, stored, self.grid)
        return [
            tables.forward_section(study.parts(self.target, self.grid), self.target, self.grid),
            tables.widths_section(study.widths(self.target), self.target),
            tables.loads_section(loads, rooms, self.grid),
            tables.speedups_section(loads, self.grid, self.drafted),
            tables.memory_section(rooms, self.target, self.draft, self.grid),
        ]

    def heading(self) -> list[str]:
        """The device, the target and the draft, a line each."""
        lines = [tables.device_line(self.target), tables.model_line("target", self.target)]
        return lines + ([tables.model_line("draft", self.draft)] if self.draft else [])

    def write(self, form: str) -> None:
        """Print everything to stdout."""
        sections = self.sections()
        if form == "json":
            click.echo(json.dumps(self._document(sections), indent=2, ensure_ascii=False))
        elif form == "csv":
            write([{"table": one.name, **row} for one in sections for row in one.rows], form)
        else:
            for line in self.heading():
                click.echo(f"- {line}" if form == "md" else line)
            for one in sections:
                self._table(one, form)

    def draw(self, folder: Path) -> None:
        """Write the charts, and say which files on stderr."""
        from specbench.report.page.files import write_charts
        from specbench.report.roofline.charts import roof_chart, speedup_chart

        charts = [
            roof_chart(self.target, self.grid),
            speedup_chart(self.target, self.drafting, self.grid, self.drafted),
        ]
        for path in write_charts(charts, folder):
            click.echo(f"{path}", err=True)

    def _table(self, one: Section, form: str) -> None:
        click.echo(f"\n## {one.title}\n" if form == "md" else f"\n{one.title}")
        if form == "md":
            click.echo(markdown(one.for_people()))
            click.echo("".join(f"\n- {remark}" for remark in one.remarks))
            return
        write(one.for_people(), form)
        for remark in one.remarks:
            click.echo(f"  {remark}")

    def _document(self, sections: list[Section]) -> dict[str, object]:
        return {
            "device": simple(self.target.device),
            "target": {**simple(self.target.shape), **simple(self.target.precision)},
            "draft": None
            if self.draft is None
            else {**simple(self.draft.shape), **simple(self.draft.precision)},
            "drafted": self.drafted,
            "grid": simple(self.grid),
            "tables": {one.name: simple(one.rows) for one in sections},
            "remarks": [remark for one in sections for remark in one.remarks],
        }


def _grid(options: Mapping[str, Any]) -> Grid:
    return Grid(
        whole_numbers(options["batch"], "--batch"),
        whole_numbers(options["context"], "--context"),
        _shares(options["acceptance"]),
        options["k"],
        options["slack"],
        options["usable"],
    )


def _shares(text: str) -> tuple[float, ...]:
    """``0.6,0.8`` as numbers from 0 to 1. UsageError for anything else."""
    try:
        found = tuple(float(word) for word in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(0 <= value <= 1 for value in found):
        raise UsageError(
            f"--acceptance {text}: not numbers from 0 to 1 with commas between",
            "write for example --acceptance 0.6,0.8",
        )
    return found


def _device(name: str, count: int, stored: list[Stored | None]) -> Device:
    """The device, which must be able to multiply what target and draft need."""
    needed = list(dict.fromkeys(kind for one in stored if one for kind in _dtypes(one[1])))
    if name == MEASURED or name.startswith(f"{MEASURED}:"):
        return _measured(name.partition(":")[2], count, needed)
    if name not in DEVICES:
        raise UsageError(f"unknown device {name!r}", nearest(name, [*DEVICES, MEASURED]))
    device = DEVICES[name]
    if lacking := [dtype for dtype in needed if dtype not in device.peaks]:
        raise UsageError(
            f"{device.title} has no products in {lacking[0]}",
            f"it has {', '.join(device.peaks)}: say one with --dtype",
        )
    return device.times(count)


def _dtypes(precision: Precision) -> tuple[str, ...]:
    """In which a forward multiplies."""
    return precision.dtype, precision.end_dtype, precision.kv_dtype


def _measured(where: str, count: int, dtypes: list[str]) -> Device:
    if count != 1:
        raise UsageError("--devices beside a measured device", "one machine is measured")
    if "float8" in dtypes:
        raise UsageError(
            "products in float8 are not measured", "say --dtype bfloat16 or --dtype float32"
        )
    try:
        import torch
    except ImportError as error:
        raise PrerequisiteError(
            "measuring needs torch", "type: pip install 'specbench-llm[native]'"
        ) from error
    from specbench.models.checkpoint import require_device
    from specbench.models.rates import measure

    chosen = where or ("cuda" if torch.cuda.is_available() else "cpu")
    begun = time.monotonic()
    click.echo(f"measuring {chosen}, about {SECONDS:.0f} s", err=True)
    device = measure(require_device(torch, chosen), dtypes, SECONDS)
    click.echo(f"measured in {time.monotonic() - begun:.1f} s", err=True)
    return device

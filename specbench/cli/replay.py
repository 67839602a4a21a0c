"""`specbench replay`: how much of a draft would the target accept, on tokens that are recorded?"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specbench.cli.rows import format_options, simple, write
from specbench.core.arm import PLAIN
from specbench.errors import PrerequisiteError, UsageError
from specbench.results.read import find_run, read_run
from specbench.results.store import RunFolder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specbench.experiment.replay.run import Asked, Replay
    from specbench.report.cells import Grid

DEEPEST = 64
SECONDS_APART = 5.0
"""Between two lines of progress."""


@click.command()
@click.argument("trace", metavar="TRACE")
@click.option(
    "--draft",
    "drafts",
    multiple=True,
    metavar="NAME[:KEY=VALUE,...]",
    help="A drafter with its options, or an arm of --arms; several are compared with the first.",
)
@click.option(
    "--arms", metavar="EXPERIMENT", help="Take drafts from the arms of this experiment or file."
)
@click.option("--arm", default=PLAIN, show_default=True, help="Arm whose outputs are replayed.")
@click.option(
    "--k",
    "k",
    default="8",
    show_default=True,
    help="Longest draft: 8 scores 1 to 8, a list such as 3,5 just these.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Prompts per suite.")
@click.option("--temperature", "temperatures", type=float, multiple=True, help="May be repeated.")
@click.option(
    "--batch", type=click.IntRange(min=1), default=16, show_default=True, help="Outputs at a time."
)
@click.option("--target", help="Target model.  [default: the run's]")
@click.option("--dtype", help="Data type of target and drafts.  [default: the run's]")
@click.option("--device", help="Device.  [default: the run's]")
@click.option(
    "--assume-same",
    is_flag=True,
    help="Take a target for the run's whose weights differ or are not known.",
)
@click.option(
    "--runs",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder of runs, for ids and 'last'.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write everything, requests included, to this JSON file.",
)
@format_options
def replay(
    trace: str,
    drafts: tuple[str, ...],
    arms: str | None,
    arm: str,
    k: str,
    limit: int | None,
    temperatures: tuple[float, ...],
    batch: int,
    target: str | None,
    dtype: str | None,
    device: str | None,
    assume_same: bool,
    runs: Path,
    out: Path | None,
    form: str,
) -> None:
    """Score drafts on the recorded outputs of TRACE: a run folder, its traces.jsonl, an id, 'last'.

    The target reads each output once; all drafts draft at every token of it, in identical contexts.
    At temperature 0 the accept length is that of decoding, above it the expected one. Nothing is
    decoded, so that nothing is said about speed.
    """
    from specbench.experiment.replay.drafts import named_drafts
    from specbench.experiment.replay.run import Asked

    given = {"model": target, "dtype": dtype, "device": device}
    asked = Asked(
        named_drafts(drafts, arms),
        longest_drafts(k),
        arm,
        temperatures,
        limit,
        batch,
        {name: value for name, value in given.items() if value is not None},
        assume_same,
    )
    if out is not None and not out.parent.is_dir():
        raise PrerequisiteError(f"--out {out}: no folder {out.parent}", "make it first")
    _write(_replay(_folder(trace, runs), asked), form, out)


def longest_drafts(text: str) -> tuple[int, ...]:
    """``8`` is 1 to 8, ``3,5`` is 3 and 5. UsageError otherwise."""
    parts = [part.strip() for part in text.split(",")]
    values = sorted({int(part) for part in parts if part.isascii() and part.isdigit()})
    if len(values) != len(parts) or not 1 <= values[0] <= values[-1] <= DEEPEST:
        raise UsageError(
            f"--k {text}: not one or several different whole numbers of 1 to {DEEPEST}",
            "write for example --k 8, or --k 3,5",
        )
    return tuple(values) if "," in text else tuple(range(1, values[0] + 1))


def _folder(trace: str, runs: Path) -> RunFolder:
    path = Path(trace)
    return find_run(str(path.parent) if path.is_file() else trace, runs, option="--runs")


def _replay(folder: RunFolder, asked: Asked) -> Replay:
    from specbench.experiment.replay.run import Hooks, replay_drafts

    start = told = time.monotonic()

    def advance(share: float) -> None:
        nonlocal told
        now = time.monotonic()
        if share and now - told >= SECONDS_APART:
            told = now
            left = _minutes((now - start) * (1 / share - 1))
            click.echo(f"{share:.0%} of the tokens replayed, about {left} left", err=True)

    def note(text: str) -> None:
        nonlocal start
        start = time.monotonic()  # loading is no part of the estimate
        click.echo(text, err=True)

    return replay_drafts(read_run(folder), asked, Hooks(note, advance))


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _write(found: Replay, form: str, out: Path | None) -> None:
    from specbench.experiment.replay.table import NO_SPEED, document, flat, grid, lines, shown

    table = lines(found)
    text = json.dumps(simple(document(found, table)), indent=2, ensure_ascii=False)
    if out is not None:
        out.write_text(text + "\n", encoding="utf-8")
    if form == "json":
        click.echo(text)
        return
    remarks = [*found.notes]
    remarks += [f"left out {count}: {reason}" for reason, count in found.reasons.items()]
    if form == "csv":
        for remark in remarks:
            click.echo(remark, err=True)  # csv is a document for programs
        write([flat(line) for line in table], form)
    elif form == "md":
        write([shown(line) for line in table], form)
        click.echo("\n" + "\n".join(f"- {remark}" for remark in [*remarks, NO_SPEED]))
    else:
        _print(grid(table, found.asked.drafts.specs[0].name), remarks, NO_SPEED)


def _print(table: Grid, remarks: Sequence[str], last: str) -> None:
    from rich.text import Text

    from specbench.cli.summary import console_of
    from specbench.report.cells import footnoted
    from specbench.report.console import grid_table

    console = console_of()
    for remark in remarks:
        console.print(Text(remark))
    console.print(grid_table(table))
    for line in ("", *footnoted(table), *table.remarks, last):
        console.print(Text(line))

"""`specbench baseline`: names for the runs that others are held against."""

from __future__ import annotations

from pathlib import Path

import click

from specbench.cli.out import out_option
from specbench.cli.rows import format_options, write


@click.group()
def baseline() -> None:
    """Name the runs that `specbench gate` holds others against."""


@baseline.command("set")
@click.argument("name")
@click.argument("run")
@out_option
def set_(name: str, run: str, out: Path) -> None:
    """Make RUN the baseline NAME; it must be complete and lie in --out."""
    from specbench.results.gate.baselines import FILE, set_baseline

    made = set_baseline(name, run, out)
    click.echo(f"{made.name}: {made.run} ({out / FILE})", err=True)


@baseline.command("list")
@out_option
@format_options
def list_(out: Path, form: str) -> None:
    """List all baselines."""
    from specbench.results.gate.baselines import read_baselines

    write(
        [
            {"name": one.name, "run": one.run, "set": one.since, "A/A runs": len(one.again)}
            for one in read_baselines(out).values()
        ],
        form,
    )


@baseline.command()
@click.argument("name")
@out_option
@format_options
def show(name: str, out: Path, form: str) -> None:
    """Show the table of the run behind NAME."""
    from specbench.cli.summary import write_summary
    from specbench.results.gate.baselines import find_baseline
    from specbench.results.store import RunFolder
    from specbench.results.summary import read_summary

    folder = RunFolder(out / find_baseline(name, out).run)
    write_summary(read_summary(folder), folder, form)

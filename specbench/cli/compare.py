"""`specbench compare`: two runs, or two arms, on the same requests."""

from __future__ import annotations

from pathlib import Path

import click

from specbench.cli.out import assume_same_option, out_option
from specbench.cli.rows import format_options, write
from specbench.errors import UsageError


@click.command()
@click.argument("base")
@click.argument("new", nargs=-1, required=True, metavar="NEW...")
@click.option("--metric", "metrics", multiple=True, help="What is compared; may be repeated.")
@click.option(
    "--by",
    type=click.Choice(["temperature", "suite", "category", "context", "position", "phase"]),
    default="suite",
    show_default=True,
    help="What requests are split by, beside temperature and concurrency; position and phase read "
    "the traces and have measures of their own.",
)
@click.option(
    "--at",
    type=click.Choice(["equal-k", "best-k"]),
    help="For drafts that were measured at several K, each named by any of its arms: at every K "
    "that both have, or each at its best K, which half of the prompts choose for the others.",
)
@click.option("--allow", "allowed", multiple=True, metavar="KEY", help="A key that may differ.")
@assume_same_option
@out_option
@format_options
def compare(
    base: str,
    new: tuple[str, ...],
    metrics: tuple[str, ...],
    by: str,
    at: str | None,
    allowed: tuple[str, ...],
    assume_same: bool,
    out: Path,
    form: str,
) -> None:
    """Compare every NEW with BASE: runs, or arms of runs as RUN:ARM.

    Requests are joined on suite, item, turn, temperature and repeat. Every measure is a ratio of
    totals over the requests of both sides, with a 95 % interval over prompts and a paired swap
    test, adjusted (Holm) for the measures of a group; scores of answers (--metric quality) are
    paired differences. Runs that did not measure the same are
    refused (exit code 6) unless --allow names the key.
    """
    from specbench.cli.pairs import write_pairs
    from specbench.report.compared import compared_grid, compared_markdown, heading, records
    from specbench.results.compare.compare import compare as compared
    from specbench.results.compare.sides import open_run

    first = open_run(base, out)
    found = compared(
        first,
        (open_run(name, out) for name in new),
        measures=_known(metrics),
        by=by,
        at=at or "",
        allowed=allowed,
        assume_same=assume_same,
    )
    if form in ("csv", "json"):
        write([row for one in found for row in records(one)], form)
    elif form == "md":
        click.echo(compared_markdown(found))
    else:
        write_pairs((heading(one), compared_grid(one)) for one in found)


def _known(metrics: tuple[str, ...]) -> tuple[str, ...]:
    """The metrics that were asked for; UsageError names those there are."""
    from specbench.catalog import nearest
    from specbench.results.compare.measures import MEASURES, SPEEDUP
    from specbench.results.compare.scores import QUALITY

    names = [*MEASURES, SPEEDUP, QUALITY]
    for metric in metrics:
        if metric not in names:
            raise UsageError(f"unknown metric {metric!r}", nearest(metric, names))
    return metrics

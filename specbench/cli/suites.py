"""`specbench suites`: check suites of prompts, say what they hold, and fetch public ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click

from specbench.catalog import SUITES
from specbench.cli.rows import format_options, write
from specbench.core.suite import Suite
from specbench.errors import PrerequisiteError, UsageError
from specbench.models.checkpoint import load_tokenizer
from specbench.models.locate import locate as locate_model
from specbench.suites.describe import Description, describe
from specbench.suites.hub import fetch as fetch_suite
from specbench.suites.hub import public_sets
from specbench.suites.loader import known_names, load_suite, locate
from specbench.suites.statistics import Encode, Spread, Statistics, prompt_statistics

SHOWN = 5
"""Reasons of left out rows that are printed; the suite's folder has all of them."""

which = click.argument("suites", nargs=-1, metavar="[NAME|PATH]...")


@click.group()
def suites() -> None:
    """Check, describe and fetch suites of prompts."""


@suites.command()
@which
@format_options
def check(suites: Sequence[str], form: str) -> None:
    """Check every row and the digest; all findings are listed, exit code 2 if there are any.

    Without NAME or PATH, the built-in suites. Warnings (duplicates, filler, missing references) go
    to stderr and do not fail.
    """
    rows: list[dict[str, object]] = []
    for name in suites or SUITES:
        try:
            found = describe(_load(name))
        except UsageError as error:
            rows.append({"suite": name, "status": "failed", "problem": str(error)})
            continue
        for warning in found.warnings:
            click.echo(f"warning: {name}: {warning}", err=True)
        rows.append(
            {
                "suite": name,
                "status": "ok",
                "prompts": found.prompts,
                "requests": found.turns,
                "warnings": len(found.warnings),
                "digest": found.digest,
            }
        )
    write(rows, form)
    failed = [str(row["suite"]) for row in rows if row["status"] == "failed"]
    if failed:
        raise UsageError(
            f"{len(failed)} of {len(rows)} suites failed: {', '.join(failed)}",
            "the table says where and what to write",
        )


@suites.command()
@which
@click.option(
    "--tokenizer", metavar="MODEL", help="Count this model's tokens; without it, words are counted."
)
@format_options
def stats(suites: Sequence[str], tokenizer: str | None, form: str) -> None:
    """Count prompts by category, split, turns, length, tag and scoring; list warnings.

    Without NAME or PATH, the built-in suites.
    """
    encode = None if tokenizer is None else _encoder(tokenizer)
    rows: list[dict[str, object]] = []
    for name in suites or SUITES:
        suite = _load(name)
        rows += _rows(describe(suite), prompt_statistics(suite.prompts, encode))
    write(rows, form)


@suites.command("list")
@format_options
def list_(form: str) -> None:
    """List public sets: where they are, their licence, and how many prompts were fetched."""
    write(
        [
            {
                "name": found.name,
                "fetched": "fetched" if found.fetched else "not fetched",
                "prompts": found.prompts,
                "licence": found.licence,
                "source": found.source,
                "title": found.title,
            }
            for found in public_sets()
        ],
        form,
        ("name", "fetched", "prompts", "licence", "title"),
    )


@suites.command()
@click.argument("name")
@click.option(
    "--file",
    "paths",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A copy on this disk instead of the hub: .jsonl, .json, .parquet, .csv or .tsv.",
)
@click.option("--revision", metavar="REV", help="Branch, tag or commit on the hub.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    help="At most this many prompts, spread over the categories.",
)
def fetch(name: str, paths: Sequence[Path], revision: str | None, limit: int | None) -> None:
    """Make a suite of the public set NAME, to be used as --suite NAME.

    One that is already there is replaced. Prints the folder on stdout; licence, number of prompts
    and left out rows on stderr.
    """
    made = fetch_suite(name, paths=paths, revision=revision, limit=limit)
    click.echo(f"{made.prompts} prompts, licence: {made.licence}", err=True)
    if made.replaced is not None:
        click.echo(f"replaced {made.replaced} prompts by {made.prompts}", err=True)
    for reason in made.skipped[:SHOWN]:
        click.echo(f"left out: {reason}", err=True)
    if len(made.skipped) > SHOWN:
        click.echo(f"left out: {len(made.skipped) - SHOWN} more, see origin.json", err=True)
    click.echo(made.folder)


def _encoder(model: str) -> Encode:
    path = locate_model(model).path
    if path is None or not path.is_dir():
        raise PrerequisiteError(
            f"the tokenizer of {model} is not in a folder on this disk",
            f"type: specbench models fetch {model}",
        )
    encode: Callable[..., Sequence[int]] = load_tokenizer(path).encode
    return partial(encode, add_special_tokens=False)


def _load(name: str) -> Suite:
    # Named suites load strictly, which stops at the first bad row; here all are wanted.
    return load_suite(locate(name) if name in known_names() else name, strict=False)


def _rows(found: Description, numbers: Statistics) -> list[dict[str, object]]:
    singles: list[tuple[str, str, object]] = [
        ("version", "", found.version),
        ("licence", "", found.licence),
        ("digest", "", found.digest),
        ("prompts", "", found.prompts),
        ("requests", "", found.turns),
        *_spread("characters", numbers.characters),
        *_spread(numbers.unit, numbers.units),
        (f"distinct {numbers.unit}", "share", numbers.distinct_share),
        ("duplicates", "prompts", numbers.duplicates),
        ("recycled", "turns", numbers.recycled_turns),
        ("common beginning", numbers.unit, numbers.common_prefix),
        ("shared beginnings", "share", numbers.shared_share),
    ]
    counts = [(what, key, n) for what, group in found.counts.items() for key, n in group.items()]
    texts = dict.fromkeys([*found.warnings, *numbers.warnings])
    warnings = [("warning", "", text) for text in texts]
    return [
        {"suite": found.name, "statistic": what, "group": key, "value": value}
        for what, key, value in [*singles, *counts, *warnings]
    ]


def _spread(name: str, sizes: Spread) -> list[tuple[str, str, object]]:
    return [
        (name, "min", sizes.minimum),
        (name, "median", sizes.median),
        (name, "p90", sizes.p90),
        (name, "max", sizes.maximum),
    ]

"""`specbench suites`: check suites of prompts, and say what they hold."""

from __future__ import annotations

from collections.abc import Sequence

import click

from specbench.catalog import SUITES, names
from specbench.cli.rows import format_options, write
from specbench.core.suite import Suite
from specbench.errors import UsageError
from specbench.suites.describe import Description, describe
from specbench.suites.loader import load_suite, locate

which = click.argument("suites", nargs=-1, metavar="[NAME|PATH]...")


@click.group()
def suites() -> None:
    """Check and describe suites of prompts; without NAME or PATH, the built-in ones."""


@suites.command()
@which
@format_options
def check(suites: Sequence[str], form: str) -> None:
    """Check every row and the digest; all findings are listed, exit code 2 if there are any.

    Warnings (duplicates, filler, missing references) go to stderr and do not fail.
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
@format_options
def stats(suites: Sequence[str], form: str) -> None:
    """Count prompts by category, split, turns, length, tag and scoring; list warnings."""
    write([row for name in suites or SUITES for row in _rows(describe(_load(name)))], form)


def _load(name: str) -> Suite:
    # Named suites load strictly, which stops at the first bad row; here all are wanted.
    return load_suite(locate(name) if name in names("suites") else name, strict=False)


def _rows(found: Description) -> list[dict[str, object]]:
    singles: list[tuple[str, str, object]] = [
        ("version", "", found.version),
        ("licence", "", found.licence),
        ("digest", "", found.digest),
        ("prompts", "", found.prompts),
        ("requests", "", found.turns),
        ("words", "min", found.words_min),
        ("words", "median", found.words_median),
        ("words", "max", found.words_max),
        ("distinct words", "share", found.distinct_share),
    ]
    counts = [(what, key, n) for what, group in found.counts.items() for key, n in group.items()]
    warnings = [("warning", "", text) for text in found.warnings]
    return [
        {"suite": found.name, "statistic": what, "group": key, "value": value}
        for what, key, value in [*singles, *counts, *warnings]
    ]

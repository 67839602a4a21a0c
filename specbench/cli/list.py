"""`specbench list`: what can be named in an experiment, from the catalogue and declared data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import shorten
from typing import Any

import click

from specbench import catalog
from specbench.cli.matrix import FOR_TESTS, LEGEND, brief, matrix
from specbench.cli.rows import Rows, format_options, simple, write
from specbench.engines.transformers_assisted.arms import OPTIONS as ASSISTED
from specbench.engines.transformers_assisted.arms import RULES as ASSISTED_RULES
from specbench.errors import SpecbenchError
from specbench.experiment.server_arms import launcher_of
from specbench.models.shipped import Shipped, shipped
from specbench.results.definitions import DEFINITIONS
from specbench.suites.hub import public_sets
from specbench.suites.loader import load_suite

NEEDS_TORCH = "install specbench-llm[native] for details"

DRAFT_LAWS = {"one_hot", "dense"}


def _infos(table: str) -> dict[str, Any]:
    """Name -> declared ``info``, or a sentence where the object cannot be imported."""
    found: dict[str, Any] = {}
    for name in catalog.names(table):
        try:
            declared: Any = catalog.resolve(table, name)
        except ImportError as error:  # names are worth listing where torch is not installed
            package = (error.name or "").partition(".")[0]
            absent = package in ("torch", "transformers")
            found[name] = NEEDS_TORCH if absent else f"cannot be imported: {error}"
        else:
            found[name] = declared.info
    return found


def _declared(table: str) -> Rows:
    return [
        {"name": name, "note": info} if isinstance(info, str) else simple(info)
        for name, info in _infos(table).items()
    ]


def _engines() -> Rows:
    return [_engine(name) for name in catalog.names("engines")]


def _engine(name: str) -> dict[str, object]:
    """An engine: where it decodes, and which drafters and rules an arm on it can name."""
    row: dict[str, object] = {"name": name, "object": catalog.entry("engines", name)}
    if name not in catalog.SERVERS:
        catalogued = {"drafters": "of the catalogue", "rules": "of the catalogue"}
        return {**row, "where": "this process", **IN_PROCESS.get(name, catalogued)}
    launcher = launcher_of(name)
    if launcher is None:
        return {**row, "where": "a server at --url", "drafters": "as served", "rules": "as served"}
    return {
        **row,
        "where": "a server at --url, or started here",
        "drafters": [drafter for drafter in launcher.drafters if drafter != "none"],
        "rules": list(launcher.rules),
    }


IN_PROCESS: dict[str, dict[str, object]] = {
    "transformers_assisted": {
        "drafters": [name for name in ASSISTED if name != "none"],
        "rules": list(ASSISTED_RULES),
    },
    "scripted": {"where": "this process, for tests", "drafters": "any", "rules": "any"},
}
"""Engines in this process that do not decode with the drafters and rules of the catalogue."""


def _suites() -> Rows:
    return [*_shipped(), *_public()]


def _public() -> Rows:
    """Public sets by name; what they hold is known once they are fetched."""
    return [
        {
            "name": known.name,
            "licence": known.licence,
            "title": known.title,
            "note": "fetched" if known.fetched else f"specbench suites fetch {known.name}",
        }
        for known in public_sets()
    ]


def _shipped() -> Rows:
    rows: list[dict[str, object]] = []
    for name in catalog.names("suites"):
        try:
            suite = load_suite(name)
        except SpecbenchError as error:
            rows.append({"name": name, "note": error.message})
            continue
        rows.append(
            {
                "name": suite.name,
                "version": suite.version,
                "prompts": len(suite.prompts),
                "requests": suite.turns,
                "categories": list(suite.categories),
                "licence": suite.licence,
                "title": suite.title,
            }
        )
    return rows


def heads(root: Path | None = None) -> Rows:
    """Heads that ship with specbench, or a note that none do.

    Args:
        root: folder of heads; None for that of this installation.
    """
    return [_head(one) for one in shipped(root)] or [{"note": "no heads in this installation"}]


def _head(one: Shipped) -> dict[str, object]:
    if one.problem:
        return {"name": one.name, "note": one.problem}
    return {
        "name": one.name,
        "family": one.family,
        "target": one.target,
        "layout": one.layout,
        "bytes": one.size_bytes,
        "accept_length": one.accept_length,
    }


def _metrics() -> Rows:
    return [simple(definition) for definition in DEFINITIONS.values()]


LISTS: dict[str, Callable[[], Rows]] = {
    "drafters": lambda: _declared("drafters"),
    "rules": lambda: _declared("rules"),
    "engines": _engines,
    "suites": _suites,
    "heads": heads,
    "metrics": _metrics,
    "matrix": lambda: matrix(_infos),
}


def _brief_rule(row: Mapping[str, object]) -> Mapping[str, object]:
    """A rule in one line of 120 columns; a parameter without a value is not set."""
    if "note" in row:
        return row
    laws: Any = row["laws"]
    parameters: Any = row["parameters"]
    at_zero = str(row["temperature_zero"]).partition(";")[0]
    if not row["sampled"]:
        at_zero += ", T=0 only"
    return {
        "name": row["name"],
        "lossless": row["lossless"],
        "laws": "any" if {*laws} == DRAFT_LAWS else laws,
        "tree": row["tree"],
        "T=0": shorten(at_zero, 36, placeholder=" ..."),
        "parameters": [
            name if value["default"] is None else f"{name}={value['default']:g}"
            for name, value in parameters.items()
        ],
    }


def _brief_drafter(row: Mapping[str, object]) -> Mapping[str, object]:
    """A drafter in one line; what its options mean is in the other forms."""
    if "note" in row:
        return row
    default: Any = row["default"]
    options: Any = row["options"]
    return {
        "name": row["name"],
        "summary": row["summary"],
        "drafts": "tree" if default["tree"] else "chain" if default["trials"] else "-",
        "law": default["law"],
        "kv": row["kv"],
        "options": " ".join(options),
    }


CONSOLE = {
    "engines": ("name", "where", "drafters", "rules"),
}
"""Columns for people; the other forms have all of them."""


@click.command("list")
@click.argument("what", type=click.Choice(list(LISTS)))
@format_options
def list_(what: str, form: str) -> None:
    """List what can be named in an experiment, and how drafters and rules combine."""
    rows = LISTS[what]()
    if form == "console" and what == "rules":
        rows = [_brief_rule(row) for row in rows]
    if form == "console" and what == "drafters":
        rows = [_brief_drafter(row) for row in rows]
    if form == "console" and what == "engines":
        rows = [row for row in rows if row["name"] not in FOR_TESTS]
    if form == "console" and what == "matrix":
        rows = [brief(row) for row in rows]
    write(rows, form, CONSOLE.get(what, ()))
    if form == "console" and what == "matrix":
        click.echo(LEGEND, err=True)

"""`specbench list`: what can be named in an experiment, from the catalogue and declared data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from specbench import catalog
from specbench.cli.rows import Rows, format_options, simple, write
from specbench.errors import SpecbenchError
from specbench.metrics.definitions import DEFINITIONS
from specbench.suites.loader import load_suite

NEEDS_TORCH = "install specbench-llm[native] for details"


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
    return [{"name": n, "object": catalog.entry("engines", n)} for n in catalog.names("engines")]


def _suites() -> Rows:
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


def _metrics() -> Rows:
    return [simple(definition) for definition in DEFINITIONS.values()]


def _matrix() -> Rows:
    """Which acceptance rules can judge which drafters' drafts."""
    rules = _infos("rules")
    return [
        {"drafter": name} | {rule: _fit(info, judge) for rule, judge in rules.items()}
        for name, info in _infos("drafters").items()
    ]


def _fit(drafter: Any, rule: Any) -> str:
    broken = next((info for info in (drafter, rule) if isinstance(info, str)), "")
    if broken:
        return broken
    if drafter.law not in ("none", *rule.laws):
        return f"no: law {drafter.law}"
    return "no: tree" if drafter.tree and not rule.tree else "yes"


LISTS: dict[str, Callable[[], Rows]] = {
    "drafters": lambda: _declared("drafters"),
    "rules": lambda: _declared("rules"),
    "engines": _engines,
    "suites": _suites,
    "metrics": _metrics,
    "matrix": _matrix,
}

CONSOLE = {
    "drafters": ("name", "summary", "law", "kv", "options", "note"),
    "rules": ("name", "lossless", "laws", "tree", "temperature_zero", "note"),
}
"""Columns for people; the other forms have all of them."""


@click.command("list")
@click.argument("what", type=click.Choice(list(LISTS)))
@format_options
def list_(what: str, form: str) -> None:
    """List what can be named in an experiment, and how drafters and rules combine."""
    write(LISTS[what](), form, CONSOLE.get(what, ()))

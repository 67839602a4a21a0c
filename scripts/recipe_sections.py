"""The generated section of docs/training.md: every key of a recipe."""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticUndefined

from specbench.train.recipe.meanings import MEANINGS
from specbench.train.recipe.methods import COUNTED, DEFAULTS, READ_BY
from specbench.train.recipe.schema import Recipe


def recipe_keys() -> str:
    """One row per key: its default, other defaults of methods, and which methods read it."""
    lines = ["| key | meaning | default | read by |", "| --- | --- | --- | --- |"]
    for key, meaning in MEANINGS.items():
        lines.append(f"| `{key}` | {meaning} | {_defaults(key)} | {_readers(key)} |")
    return "\n".join(lines)


def _defaults(key: str) -> str:
    table, name = key.split(".")
    fields: dict[str, Any] = {f.alias or n: f for n, f in Recipe.model_fields.items()}
    field = fields[table].annotation.model_fields[name]
    value = field.get_default(call_default_factory=True)
    own = {
        method: tables[table][name]
        for method, tables in DEFAULTS.items()
        if name in tables.get(table, {}) and tables[table][name] != value
    }
    shown = "required" if value is PydanticUndefined else _shown(value)
    groups: dict[str, list[str]] = {}
    for method, other in own.items():
        groups.setdefault(_shown(other), []).append(method)
    return "; ".join([shown, *(f"{other}: {', '.join(m)}" for other, m in groups.items())])


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return ", ".join(f'{k} = "{v}"' for k, v in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _readers(key: str) -> str:
    if key in READ_BY:
        return ", ".join(READ_BY[key])
    counted = key.startswith(("head.", "capture.", "train."))
    return f"all but {', '.join(sorted(COUNTED))}" if counted else "all"

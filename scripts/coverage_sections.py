"""What intervals, comparisons and gates keep in simulations, from results/coverage.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specbench.cli.rows import markdown

ROOT = Path(__file__).resolve().parents[1]


def interval_coverage() -> str:
    """Share of 95 % intervals that hold the true value, by measure and number of prompts."""
    found = _read()
    rows: list[dict[str, Any]] = found["intervals"]
    sizes = dict.fromkeys(row["prompts"] for row in rows)
    lines = [
        {"measure": f"`{measure}`"}
        | {
            f"{size} prompts": _share(row, "covered")
            for size in sizes
            for row in rows
            if (row["measure"], row["prompts"]) == (measure, size)
        }
        for measure in dict.fromkeys(row["measure"] for row in rows)
    ]
    each = rows[0]["experiments"]
    note = (
        f"`{found['command']}`: {each} experiments of each size, with the Wilson interval of every "
        "share."
    )
    return f"{markdown(lines)}\n\n{note}"


def false_claims() -> str:
    """How often a comparison of equal arms claims something."""
    rows = [
        {
            "prompts": row["prompts"],
            "comparisons": row["comparisons"],
            "claim a difference": _share(row, "share"),
            "single intervals that exclude 1": f"{row['intervals_that_exclude_1']:.1%}",
            "single swap tests at 5 %": f"{row['swap_tests_below_5_percent']:.1%}",
        }
        for row in _read()["claims"]
    ]
    return markdown(rows)


def false_failures() -> str:
    """Gates that failed and should not have, beside their bound."""
    gate = _read()["gate"]
    gates = [
        {
            "case": row["case"],
            "checks": f"{row['checks']}, {BY[row['by']]}",
            "gates": row["gates"],
            "failed": row["failed"],
            "share": _share(row, "rate", 2),
            "bound": f"{row['bound']:.1%}",
        }
        for row in gate["gates"]
    ]
    checks = [
        {
            "case": row["case"],
            "check": f"`{row['check']}` over {row['over']}",
            "checks": row["checks"],
            "failed": row["failed"],
            "share": _share(row, "rate", 2),
            "bound": f"{gate['alpha']:.1%}",
        }
        for row in gate["checks"]
    ]
    written = gate["written"]
    folders = (
        f"{written['gates']} gates of written run folders with {written['again']} A/A runs each "
        f"and {written['checks']} checks, nothing changed: {written['failed']} failed, "
        f"{written['passed']} passed, {written['not_decided']} not decided."
    )
    return f"{markdown(gates)}\n\nCheck by check:\n\n{markdown(checks)}\n\n{folders}"


BY = {"all": "requests together", "suite": "by suite"}
"""How the checks of a gate split the requests, in words."""


def _read() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "results" / "coverage.json").read_text("utf-8"))
    return found


def _share(row: dict[str, Any], name: str, digits: int = 1) -> str:
    """A share with its interval, in percent."""
    value, low, high = (100 * row[f"{name}{end}"] for end in ("", "_low", "_high"))
    return f"{value:.{digits}f} % [{low:.{digits}f}, {high:.{digits}f}]"

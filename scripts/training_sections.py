"""Generated sections of docs/training.md: the heads that ship, and studies of training.

The heads' own cards; results/norms.json (``scripts/norms.py``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specbench.cli.rows import markdown
from specbench.models.heads.made_for import CARD
from specbench.models.zoo import zoo_folder, zoo_names
from specbench.results.summary import Summary

ROOT = Path(__file__).resolve().parents[1]
SUITES = ("code", "chat", "translation")
SHOWN = ("bigram", "medusa", "mtp", "eagle3", "eagle3_16")


def zoo_table() -> str:
    """One row per head that ships, from its card."""
    rows = []
    for name in zoo_names():
        folder = zoo_folder() / name
        card: dict[str, Any] = json.loads((folder / CARD).read_text("utf-8"))
        size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
        loop, suites = card["loop"], card.get("suites", {})
        counted = "steps" not in loop
        found = {suite: suites[suite] for suite in SUITES if suite in suites}
        rows.append(
            {
                "head": f"zoo:{name}",
                "MB": f"{size / 1e6:.1f}",
                "method": card["method"],
                "steps": "" if counted else f"{loop['steps']:,}",
                "tokens seen": "" if counted else f"{loop['tokens']:,}",
                "hours": "" if counted else f"{loop['hours']:.1f}",
                "held out": f"{loop['held_out_accept_length']:.2f}",
                **{suite: f"{one['accept_length']:.2f}" for suite, one in found.items()},
                "K": next((str(one["k"]) for one in found.values()), ""),
            }
        )
    return markdown(rows)


def measured_table(summary: Summary) -> str:
    """Accept length and speed-up of the heads on test prompts that do not loop."""
    rows: dict[tuple[str, float], dict[str, object]] = {}
    for one in summary.rows:
        if one.suite not in SUITES or one.arm not in SHOWN:
            continue
        row = rows.setdefault(
            (one.arm, one.temperature), {"arm": one.arm, "T": f"{one.temperature:g}"}
        )
        length, speed = one.figures["accept_length_sound"], one.figures["speedup_sound"]
        row[one.suite] = (
            f"{length.value:.2f}, {speed.value:.2f}x [{speed.low:.2f}, {speed.high:.2f}]"
        )
    return markdown([rows[key] for key in sorted(rows, key=lambda k: (SHOWN.index(k[0]), k[1]))])


def norms_table() -> str:
    """Accept length with and without norms, after short and long prompts."""
    found: dict[str, Any] = _read("norms.json")
    settings = found["settings"]
    rows: dict[str, dict[str, object]] = {}
    for one in found["rows"]:
        row = rows.setdefault(one["head"], {"head": one["head"]})
        row[one["prompts"]] = f"{one['accept_length']:.2f}"
    return (
        f"{markdown(list(rows.values()))}\n\nMean accept length over temperatures on "
        f"{settings['held']} held-out answers of the same kind, chains of {settings['k']}; "
        f"{settings['tokens']:,} tokens of answers, seen {settings['epochs']:g} times."
    )


def _read(name: str) -> Any:
    return json.loads((ROOT / "results" / name).read_text("utf-8"))

"""What a gate says of planted faults on the real model. Writes results/gate_faults.json.

Five arms are decoded in alternation: the MTP head that ships, the same once more, and with three
faults (``planted_faults``). Each is then held against the first by the rules that hold by default.

    .venv/bin/python scripts/gate_faults.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import click
from planted_faults import PAUSE_S, POSING, SLOWED, planted, shuffled

from specbench.cli.run import run
from specbench.report.gated import WORDS, gate_grid
from specbench.results.compare.sides import open_run
from specbench.results.gate.gate import gate
from specbench.results.gate.rules import DEFAULT

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "gate_faults.json"
TARGET, HEAD, K = "smollm2-135m-instruct", "zoo:smollm2-135m-mtp", 3
BASE = "shipped"
FAULTS = {
    "again": "nothing was changed",
    "slowed": f"{PAUSE_S * 1000:g} ms more before every draft",
    "shuffled": "the head's weights are shuffled",
    "posing": "typical acceptance, declared lossless",
}
"""Arm -> what was done to it."""


def experiment(shuffled_head: Path, limit: int, tokens: int) -> str:
    """experiment.toml: the built-in experiment ``ci`` with arms that have faults."""
    arms = {
        BASE: ("mtp", "rejection", HEAD),
        "again": ("mtp", "rejection", HEAD),
        "slowed": (SLOWED, "rejection", HEAD),
        "shuffled": ("mtp", "rejection", str(shuffled_head)),
        "posing": ("mtp", POSING, HEAD),
    }
    tables = "".join(
        f'[arm.{name}]\ndrafter = "{drafter}"\nk = {K}\nrule = "{rule}"\n'
        f'options = {{ model = "{model}", dtype = "bfloat16" }}\n'
        for name, (drafter, rule, model) in arms.items()
    )
    return f"""schema_version = 1
name = "faults"
title = "planted faults"
[target]
model = "{TARGET}"
[workload]
suites = ["code", "chat"]
split = "dev"
limit = {limit}
temperatures = [0.0, 0.7]
max_new_tokens = {tokens}
{tables}"""


def verdicts(folder: Path) -> list[dict[str, Any]]:
    """One row per fault: what the gate came to, and what decided it."""
    rows: list[dict[str, Any]] = []
    base = open_run(f"{folder}:{BASE}", folder.parent)
    for arm, fault in FAULTS.items():
        (found,) = gate(base, open_run(f"{folder}:{arm}", folder.parent), DEFAULT)
        table = gate_grid(found)
        names = [name.partition(" ")[0] for name in table.header]
        checks = [dict(zip(names, row, strict=True)) for row in table.rows]
        rows.append({"fault": fault, "verdict": WORDS[found.outcome], "checks": checks})
    return rows


@click.command()
@click.option("--limit", default=8, show_default=True, help="Prompts per suite.")
@click.option("--tokens", default=64, show_default=True, help="Longest answer.")
def main(limit: int, tokens: int) -> None:
    """Plant, run, and ask the gate."""
    planted()
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        head = shuffled(TARGET, HEAD, work / "shuffled", seed=1)
        file = work / "experiment.toml"
        file.write_text(experiment(head, limit, tokens), "utf-8")
        code = run.main([str(file), "--yes", "--out", str(work / "runs")], standalone_mode=False)
        click.echo(f"specbench run ended with {code}", err=True)
        (manifest,) = (work / "runs").glob("*/manifest.json")
        rows = verdicts(manifest.parent)
    settings = {"prompts": 2 * limit, "tokens": tokens, "k": K}
    OUT.write_text(json.dumps({"settings": settings, "rows": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()

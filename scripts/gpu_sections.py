"""The generated section of docs/gpu.md: what ``scripts/gpu_check`` found, where it has run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specbench.cli.rows import markdown

RESULT = Path(__file__).resolve().parents[1] / "results" / "gpu.json"
NOT_YET = (
    "`scripts/gpu_check` has not run on a device yet: there are no figures here, and none of the "
    "aims that it holds them against is known to be met."
)


def gpu_check(path: Path = RESULT) -> str:
    """A table of all figures, and what was left out; or that there is none."""
    if not path.exists():
        return NOT_YET
    found = json.loads(path.read_text())
    where = found["environment"]
    rows = [_row(part, one) for part, held in found["parts"].items() for one in held["figures"]]
    left_out = [
        f"- {part}, {what}: {why}"
        for part, held in found["parts"].items()
        for what, why in held["skipped"].items()
    ]
    said = (
        f"On {where['device']} with torch {where['torch']}, CUDA {where['cuda']} and transformers "
        f"{where['transformers']}; {found['sizes']}."
    )
    lines = [said, "", markdown(rows)]
    return "\n".join([*lines, "", "Left out:", "", *left_out] if left_out else lines)


def _row(part: str, one: dict[str, Any]) -> dict[str, object]:
    bound = {True: "at least", False: "at most"}[one["least"]]
    met = {None: "-", True: "yes", False: "no"}[one["met"]]
    spread = "" if one["spread"] is None else " ({:.3g} to {:.3g})".format(*one["spread"])
    return {
        "part": part,
        "figure": one["name"],
        "measured": f"{one['value']:.4g} {one['unit']}{spread}",
        "aim": "-" if one["aim"] is None else f"{bound} {one['aim']:g}",
        "met": met,
    }

"""Generated sections of docs/training.md: the heads that ship, and studies of training.

The heads' own cards; results/norms.json (``scripts/norms.py``) and results/vocabularies.json
(``scripts/vocabularies.py``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Target:
    """What the heads that ship were to reach.

    Attributes:
        said: what is measured, in words.
        arms: the best of these counts.
        figure: name in the summary.
        floor, aim: at least, and hoped for.
    """

    said: str
    arms: tuple[str, ...]
    figure: str
    suite: str
    floor: float
    aim: float

    def reached(self, summary: Summary, temperature: float) -> str:
        """The measured value and what it reaches."""
        value = max(
            float(found)
            for row in summary.rows
            if (row.suite, row.temperature) == (self.suite, temperature)
            and row.arm in self.arms
            and (found := row.figures[self.figure].value) is not None
        )
        word = "aim" if value >= self.aim else "floor" if value >= self.floor else "missed"
        return f"{value:.2f}, {word}"


BEST = ("medusa", "mtp", "eagle3", "eagle3_16")
LENGTH, SPEED = "accept_length_sound", "speedup_sound"
TARGETS = (
    Target("MTP, K = 3, accept length on code", ("mtp",), LENGTH, "code", 1.9, 2.4),
    Target("MTP, K = 3, accept length on chat", ("mtp",), LENGTH, "chat", 1.6, 2.0),
    Target("EAGLE-3, 16 nodes, accept length on code", ("eagle3_16",), LENGTH, "code", 2.2, 2.8),
    Target("best speed-up on code", BEST, SPEED, "code", 1.4, 1.8),
    Target("best speed-up on chat", BEST, SPEED, "chat", 1.2, 1.4),
)


def targets_table(summary: Summary) -> str:
    """What was set out for and what was measured."""
    return markdown(
        [
            {
                "what": one.said,
                "floor": f"{one.floor:g}",
                "aim": f"{one.aim:g}",
                **{f"T = {t:g}": one.reached(summary, t) for t in (0.0, 0.7)},
            }
            for one in TARGETS
        ]
    )


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


def vocabularies_table() -> str:
    """Accept length and speed-up of the MTP head with fewer and more draft tokens, by language."""
    found: dict[str, Any] = _read("vocabularies.json")
    rows: dict[tuple[float, str], dict[str, object]] = {}
    for one in found["rows"]:
        key = (one["temperature"], one["language"])
        row = rows.setdefault(key, {"T": f"{key[0]:g}", "answers in": key[1]})
        row[f"{one['tokens']:,}"] = f"{one['accept_length']:.2f}, {one['speedup']:.2f}x"
    return (
        f"{markdown(list(rows.values()))}\n\nAccept length, and speed-up over plain, by number of "
        f"tokens that are drafted; {found['limit']} prompts per suite, chains of {found['k']}."
    )


def _read(name: str) -> Any:
    return json.loads((ROOT / "results" / name).read_text("utf-8"))

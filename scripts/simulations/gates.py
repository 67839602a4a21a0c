"""How often a gate fails that should not: with nothing changed, and at the border."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from specbench.results.compare.sides import open_run
from specbench.results.compare.split import ALL
from specbench.results.gate.always import FIDELITY, SUCCESS
from specbench.results.gate.decide import Checked, Outcome
from specbench.results.gate.gate import Gated, gate
from specbench.results.gate.rules import ALPHA, DEFAULT, Check, GateRules
from specbench.results.store import RunFolder
from specbench.results.summary import summary_text
from specbench.stats.proportion import wilson

from .intervals import BASE, SEEDS, rounded
from .population import Arm, Population, worse_by
from .runs import (
    GREEDY,
    SAMPLED,
    draw_run,
    draw_suite,
    run_rows,
    summary_of,
    write_run,
)

SUITES = (
    Population("code", median_tokens=120.0, acceptance=(4.0, 1.6)),
    Population("chat"),
    Population("translation", median_tokens=45.0, acceptance=(2.0, 3.0)),
)
NAMES = [one.name for one in SUITES]
EACH = 16
"""Prompts of a suite: 48 in all, of the order of what a job measures."""
BY_SUITE = GateRules(check=[one.model_copy(update={"by": "suite"}) for one in DEFAULT.check])
WITH_TIMES = GateRules(check=[*BY_SUITE.check, Check(metric="itl", allow=0.1, by="suite")])
ARM = "arm"
AGAIN = 3
"""A/A runs of a baseline, as docs/ci.md makes them."""
OCCASION = 0.02
"""Deviation of the log of how fast a machine is, between runs."""
BATCH = 50
UNCHANGED, BORDER = "nothing changed", "at the border of what is allowed"


@dataclass(slots=True)
class Tally:
    """Checks and gates that were asked and that failed, by family of checks."""

    gates: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    passed: Counter[str] = field(default_factory=Counter)
    checks: Counter[tuple[str, str]] = field(default_factory=Counter)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, found: Gated) -> None:
        """Count one gate, whose checks are also those of a gate that does not split by suite."""
        self.gates += 1
        measured = [one for one in found.checks if one.what not in (SUCCESS, FIDELITY)]
        whole = [one for one in measured if one.where.endswith(f", {ALL}")]
        for family, checks in (("all", whole), ("suite", measured)):
            self.asked[family] = len(checks)
            self.failed[family] += any(one.outcome is Outcome.FAIL for one in checks)
            self.passed[family] += all(one.outcome is Outcome.PASS for one in checks)
        for one in measured:
            self.checks[_kind(one)] += 1
            self.failures[_kind(one)] += one.outcome is Outcome.FAIL


def _kind(one: Checked) -> tuple[str, str]:
    return one.what, "48 prompts" if one.where.endswith(f", {ALL}") else "16 prompts"


def failures(
    border: int, unchanged: int, written: int, seed: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Gates of the decision alone at the border and with nothing changed, and of written runs."""
    slower = {
        one: worse_by(one, BASE, 1 - DEFAULT.check[0].allow, 1 - DEFAULT.check[1].allow)
        for one in SUITES
    }
    same = dict.fromkeys(SUITES, BASE)
    found = {
        BORDER: decided(border, slower, np.random.default_rng([seed, 2]), say),
        UNCHANGED: decided(unchanged, same, np.random.default_rng([seed, 3]), say),
    }
    return {
        "alpha": ALPHA,
        "gates": [row for case, tally in found.items() for row in families(case, tally)],
        "checks": [row for case, tally in found.items() for row in single(case, tally)],
        "written": from_folders(written, np.random.default_rng([seed, 4]), say),
    }


def decided(
    gates: int, arms: dict[Population, Arm], rng: np.random.Generator, say: Callable[[str], None]
) -> Tally:
    """Gates of runs in memory, without A/A runs, which would widen every interval."""
    tally = Tally()
    with TemporaryDirectory() as folder:
        places = [Path(folder) / name for name in ("base", "new")]
        for place in places:
            place.mkdir()
            text = summary_text(summary_of(place.name, NAMES, {ARM: BASE}))
            RunFolder(place).summary_json.write_text(text, "utf-8")
        for first in range(0, gates, BATCH):
            count = min(BATCH, gates - first)
            runs = simulated(count, [dict.fromkeys(SUITES, BASE), arms], rng)
            for number, pair in enumerate(zip(*runs, strict=True)):
                seed = (first + number) % SEEDS
                base, new = (
                    run_rows(place, rows, NAMES, {ARM: BASE}, seed)
                    for place, rows in zip(places, pair, strict=True)
                )
                tally.add(gate(base, new, BY_SUITE)[0])
            say(f"{tally.gates} of {gates} gates, {tally.failed['suite']} failed")
    return tally


def simulated(
    experiments: int, arms: Sequence[dict[Population, Arm]], rng: np.random.Generator
) -> list[list[pd.DataFrame]]:
    """Runs of the same prompts on occasions of their own, [runs][experiments]."""
    suites = [draw_suite(one, {ARM: BASE}, experiments, EACH, rng) for one in SUITES]
    return [
        draw_run(
            [(drawn, {ARM: of[drawn.prompts.population]}) for drawn in suites],
            [GREEDY, SAMPLED],
            np.exp(OCCASION * rng.standard_normal(experiments)),
            rng,
        )
        for of in arms
    ]


def families(case: str, tally: Tally) -> list[dict[str, Any]]:
    """A row per family of checks."""
    return [
        {
            "case": case,
            "by": name,
            "checks": tally.asked[name],
            "gates": tally.gates,
            "failed": tally.failed[name],
            **rounded(wilson(tally.failed[name], tally.gates), "rate"),
            "bound": round(tally.asked[name] * ALPHA, 6),
            "passed": tally.passed[name],
        }
        for name in tally.asked
    ]


def single(case: str, tally: Tally) -> list[dict[str, Any]]:
    """A row per measure and number of prompts."""
    return [
        {
            "case": case,
            "check": what,
            "over": over,
            "checks": count,
            "failed": tally.failures[what, over],
            **rounded(wilson(tally.failures[what, over], count), "rate"),
        }
        for (what, over), count in tally.checks.items()
    ]


def from_folders(
    gates: int, rng: np.random.Generator, say: Callable[[str], None]
) -> dict[str, Any]:
    """Gates of written runs against a baseline with A/A runs; nothing differs between any."""
    arms = [dict.fromkeys(SUITES, BASE)] * (2 + AGAIN)
    outcomes: Counter[Outcome] = Counter()
    checks = 0
    with TemporaryDirectory() as folder:
        out = Path(folder)
        for number, runs in enumerate(zip(*simulated(gates, arms, rng), strict=True)):
            opened = []
            for place, rows in enumerate(runs):
                path = out / f"{number}-{place}"
                write_run(path, rows, NAMES, {ARM: BASE}, seed=number)
                opened.append(open_run(str(path), out))
            found = gate(opened[0], opened[1], WITH_TIMES, again=opened[2:])[0]
            outcomes[found.outcome] += 1
            checks = len(found.checks)
    say(f"{gates} gates of written runs: {outcomes[Outcome.FAIL]} failed")
    return {
        "gates": gates,
        "again": AGAIN,
        "checks": checks,
        "failed": outcomes[Outcome.FAIL],
        "passed": outcomes[Outcome.PASS],
        "not_decided": outcomes[Outcome.INCONCLUSIVE],
    }

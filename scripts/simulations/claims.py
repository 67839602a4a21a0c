"""How often a comparison claims a difference between two arms that do not differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from specbench.results.compare.contrast import contrasts
from specbench.results.compare.joined import join
from specbench.results.compare.measures import DEFAULT
from specbench.results.compare.totals import totals_of
from specbench.results.compare.verdict import Judged, Verdict, judge
from specbench.stats.proportion import wilson

from .intervals import BASE, POPULATION, SEEDS, SIZES, rounded
from .population import Array
from .runs import SAMPLED, draw_run, draw_suite, run_rows

ARMS = {"one": BASE, "other": BASE}
CLAIMS = (Verdict.BETTER, Verdict.WORSE)
BATCH = 100


def claims(
    experiments: int, seed: int, say: Callable[[str], None], sizes: Sequence[int] = SIZES
) -> list[dict[str, Any]]:
    """A row per number of prompts.

    ``any`` counts comparisons that claim something of at least one measure, ``alone`` single tests
    at 5 %: intervals that exclude 1, and swap tests, of all measures together.
    """
    rows = []
    for prompts in sizes:
        rng = np.random.default_rng([seed, prompts, 1])
        judged = [
            one
            for first in range(0, experiments, BATCH)
            for one in compared(min(BATCH, experiments - first), prompts, rng, first)
        ]
        rows.append({"prompts": prompts} | counted(judged))
        say(f"comparisons over {prompts} prompts: {rows[-1]['claiming']} of {experiments} claim")
    return rows


def compared(
    experiments: int, each: int, rng: np.random.Generator, first: int
) -> list[list[Judged]]:
    """Verdicts on two arms of one run that differ by chance alone, in the default measures."""
    suite = draw_suite(POPULATION, ARMS, experiments, each, rng)
    found = draw_run([(suite, ARMS)], [SAMPLED], _steady(experiments), rng)
    judged = []
    for number, rows in enumerate(found):
        seed = (first + number) % SEEDS
        run = run_rows(Path("run"), rows, [POPULATION.name], ARMS, seed)
        joined = join(run.side("one"), run.side("other"))
        made = [totals_of(name, joined, joined.every) for name in DEFAULT]
        judged.append(judge(contrasts(made, seed)))
    return judged


def _steady(experiments: int) -> Array:
    return np.ones(experiments)


def counted(judged: Sequence[Sequence[Judged]]) -> dict[str, Any]:
    """Comparisons that claim anything, and how often each measure is claimed."""
    claiming = sum(any(one.verdict in CLAIMS for one in found) for found in judged)
    single = [one for found in judged for one in found]
    excluded = sum(_excludes(one) for one in single)
    rejected = sum(one.contrast.p is not None and one.contrast.p <= 0.05 for one in single)
    return {
        "comparisons": len(judged),
        "claiming": claiming,
        **rounded(wilson(claiming, len(judged)), "share"),
        "measures": len(single) // len(judged),
        "intervals_that_exclude_1": round(excluded / len(single), 4),
        "swap_tests_below_5_percent": round(rejected / len(single), 4),
    }


def _excludes(one: Judged) -> bool:
    ratio = one.contrast.ratio
    return ratio.low is not None and ratio.high is not None and not ratio.low <= 1 <= ratio.high

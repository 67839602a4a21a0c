"""How often 95 % intervals hold the true value of a ratio of totals, by number of prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specbench.core.quantity import Quantity
from specbench.stats.bootstrap import ratio_interval, total_ratio
from specbench.stats.proportion import wilson

from .drawing import (
    Counts,
    Prompts,
    draw_counts,
    draw_lengths,
    draw_ms,
    draw_own,
    draw_prompts,
)
from .population import Arm, Array, Population, expected

POPULATION = Population("chat")
PLAIN = Arm()
BASE = Arm(k=4, step_ms=12.0, own_spread=0.05)
NEW = Arm(k=6, step_ms=13.5, power=0.9, own_spread=0.05)
SIZES = (12, 20, 40, 80, 160, 320)
SEEDS = 20
"""Of resampling: as many for all experiments of a size."""
TEMPERATURES = ("greedy", "sampled")
ROUNDED = 4


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Totals of two ratios by experiment and prompt, and what their quotient is in truth.

    Attributes:
        arrays: numerator and denominator, of a quotient of ratios of both sides,
            [experiments, prompts] each.
    """

    truth: float
    unit: str
    arrays: tuple[Array, ...]


def coverage(
    experiments: int, seed: int, say: Callable[[str], None], sizes: Sequence[int] = SIZES
) -> list[dict[str, Any]]:
    """A row per measure and number of prompts."""
    rows = []
    for prompts in sizes:
        drawn = measures(experiments, prompts, np.random.default_rng([seed, prompts]))
        for name, columns in drawn.items():
            found = [intervals(columns, number) for number in range(experiments)]
            rows.append({"measure": name, "prompts": prompts} | covered(found, columns.truth))
        say(f"intervals over {prompts} prompts: {_shares(rows, prompts)}")
    return rows


def _shares(rows: Iterable[dict[str, Any]], prompts: int) -> str:
    return ", ".join(
        f"{row['measure']} {row['covered']:.3f}" for row in rows if row["prompts"] == prompts
    )


def measures(experiments: int, each: int, rng: np.random.Generator) -> dict[str, Columns]:
    """Simulated columns of every measure.

    The first three are of a greedy arm beside plain, which decodes the same tokens; two arms that
    sample decode answers of their own.
    """
    prompts = draw_prompts(POPULATION, experiments, each, rng)
    tokens = draw_lengths(prompts, rng)
    plain, plain_ms = decoded(prompts, tokens, PLAIN, rng)
    base, base_ms = decoded(prompts, tokens, BASE, rng)
    new, new_ms = decoded(prompts, draw_lengths(prompts, rng), NEW, rng)
    committed, steps, ms = prompts.totals(base.tokens), prompts.totals(base.steps), base_ms
    of_plain, of_base, of_new = (expected(POPULATION, arm) for arm in (PLAIN, BASE, NEW))
    itl = {
        arm: one.ms / one.tokens
        for arm, one in zip((PLAIN, BASE, NEW), (of_plain, of_base, of_new), strict=True)
    }
    lengths = of_base.tokens / of_base.steps, of_new.tokens / of_new.steps
    theirs = prompts.totals(new.tokens), prompts.totals(new.steps)
    return {
        "accept_length": Columns(lengths[0], "tokens/step", (committed, steps)),
        "itl": Columns(itl[BASE], "ms", (ms, committed)),
        "speedup": Columns(
            itl[PLAIN] / itl[BASE], "x", (plain_ms, prompts.totals(plain.tokens), ms, committed)
        ),
        "accept_length, new / base": Columns(
            lengths[1] / lengths[0], "x", (*theirs, committed, steps)
        ),
        "itl, new / base": Columns(itl[NEW] / itl[BASE], "x", (new_ms, theirs[0], ms, committed)),
    }


def decoded(
    prompts: Prompts, tokens: Any, arm: Arm, rng: np.random.Generator
) -> tuple[Counts, Array]:
    """Counts of an arm, and its time by experiment and prompt."""
    counts = draw_counts(prompts, tokens, arm, rng)
    ms = draw_ms(prompts, counts, arm, draw_own(prompts, arm, rng), rng)
    return counts, prompts.totals(ms)


def intervals(columns: Columns, number: int) -> Quantity:
    """The interval of one experiment."""
    arrays, seed = [array[number] for array in columns.arrays], number % SEEDS
    if len(arrays) == 2:
        return total_ratio(arrays[0], arrays[1], seed=seed, unit=columns.unit)
    return ratio_interval(arrays[0], arrays[1], arrays[2], arrays[3], seed=seed)


def covered(found: Sequence[Quantity], truth: float) -> dict[str, Any]:
    """How many intervals hold the truth, and how many miss it on either side."""
    ends = [(one.low, one.high) for one in found if one.low is not None and one.high is not None]
    above = sum(low > truth for low, _ in ends)
    below = sum(high < truth for _, high in ends)
    held = len(ends) - above - below
    return {
        "truth": truth,
        "experiments": len(ends),
        "held": held,
        "too_high": above,
        "too_low": below,
        **rounded(wilson(held, len(ends)), "covered"),
        "method": found[0].method.partition(" over")[0],
        "width": round(float(np.median([(high - low) / truth for low, high in ends])), ROUNDED),
    }


def rounded(share: Quantity, name: str) -> dict[str, float | None]:
    """A share and its interval, to so many digits as thousands of experiments tell."""
    ends = {"": share.number(), "_low": share.low, "_high": share.high}
    return {
        f"{name}{end}": None if value is None else round(value, ROUNDED)
        for end, value in ends.items()
    }

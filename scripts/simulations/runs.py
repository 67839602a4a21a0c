"""Simulated runs: records of suites at two temperatures, in memory or as folders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from specbench.core.arm import PLAIN
from specbench.core.manifest import ArmFactors, Identity, Manifest
from specbench.results.compare.sides import RunRows
from specbench.results.items import COLUMNS
from specbench.results.schema import manifest_document, strict_json
from specbench.results.store import RunFolder
from specbench.results.summary import Summary, SummaryRow, summary_text

from .drawing import (
    Counts,
    Numbers,
    Prompts,
    draw_counts,
    draw_lengths,
    draw_ms,
    draw_own,
    draw_prompts,
)
from .population import Arm, Array, Population

GREEDY, SAMPLED = 0.0, 1.0
PLAIN_ARM = Arm()
PREFILL_MS, PREFILL_SPREAD = 60.0, 0.1
NS_PER_MS = 1e6
SAME: Mapping[str, object] = dict.fromkeys(COLUMNS, "") | {
    "category": "any",
    "split": "test",
    "concurrency": 1.0,
    "order": 0.0,
    "resumed": 0.0,
    "finish": "length",
    "seed": 1.0,
    "prompt_tokens": 64.0,
    "start": 0.0,
    "degenerate": 0.0,
    "score": np.nan,
}
"""Columns of items.csv that are alike in all records."""
Arms = Mapping[str, Arm]
"""Name -> arm, beside plain."""


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """Prompts of a suite, and what every run of them has alike.

    Attributes:
        lengths: of greedy answers.
        own: name of an arm -> what it makes of each prompt's cost.
        greedy: an arm -> what it counts at temperature 0, whenever it runs.
    """

    prompts: Prompts
    lengths: Numbers
    own: dict[str, Array]
    greedy: dict[Arm, Counts] = field(default_factory=dict)


def draw_suite(
    population: Population, arms: Arms, experiments: int, each: int, rng: np.random.Generator
) -> Drawn:
    """The prompts of one suite, for runs of these arms."""
    prompts = draw_prompts(population, experiments, each, rng)
    own = {name: draw_own(prompts, arm, rng) for name, arm in arms.items()}
    return Drawn(prompts, draw_lengths(prompts, rng), own)


def draw_run(
    suites: Iterable[tuple[Drawn, Arms]],
    temperatures: Sequence[float],
    occasion: Array,
    rng: np.random.Generator,
) -> list[pd.DataFrame]:
    """One run of each experiment, as ``specbench.results.compare.rows.read_rows`` gives it.

    Args:
        suites: prompts with their arms.
        temperatures: of ``GREEDY``, where an arm counts the same in all runs, and ``SAMPLED``,
            where every run draws answers of its own.
        occasion: factor of all times, one entry per experiment.
    """
    parts = []
    for drawn, arms in suites:
        for temperature in temperatures:
            for name, arm in {PLAIN: PLAIN_ARM, **arms}.items():
                parts.append(_records(drawn, temperature, name, arm, occasion, rng))
    rows = pd.concat(parts, ignore_index=True)
    return [part.drop(columns="experiment") for _, part in rows.groupby("experiment")]


def _records(
    drawn: Drawn,
    temperature: float,
    name: str,
    arm: Arm,
    occasion: Array,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Records of one arm on one suite, with the number of their experiment."""
    prompts, counts = drawn.prompts, _counts(drawn, temperature, arm, rng)
    experiment, item = np.divmod(prompts.prompt, prompts.each)
    own = drawn.own.get(name, np.ones(len(prompts.cost)))
    decode = draw_ms(prompts, counts, arm, own, rng) * occasion[experiment]
    prefill = PREFILL_MS * np.exp(PREFILL_SPREAD * rng.standard_normal(len(item)))
    prefill *= prompts.cost[prompts.prompt] * occasion[experiment]
    first, decode = np.rint(prefill * NS_PER_MS), np.rint(decode * NS_PER_MS)
    names = np.char.add("p", np.arange(prompts.each).astype(str))[item]
    drafted = counts.steps * float(arm.k)
    # A draft is accepted with probability sum min(p, q); greedy records do not hold it.
    told = arm.k > 0 and temperature == SAMPLED
    chance = prompts.accepts[prompts.prompt] ** arm.power
    columns: dict[str, object] = {
        "suite": prompts.population.name,
        "item": names,
        "turn": prompts.turn.astype(np.float64),
        "temperature": temperature,
        "repeat": prompts.repeat.astype(np.float64),
        "arm": name,
        "unit": names,
        "prompt_sha256": names,
        "output_tokens": counts.tokens + 1.0,
        "steps": counts.steps.astype(np.float64),
        "proposed": drafted,
        "verified": drafted,
        "judged": counts.judged.astype(np.float64),
        "accepted": counts.accepted.astype(np.float64),
        "committed": counts.tokens.astype(np.float64),
        "first_token_ns": first,
        "last_token_ns": first + decode,
        "decode_ns": decode,
        "decode_tokens": counts.tokens.astype(np.float64),
        "visited": counts.judged.astype(np.float64) if told else np.nan,
        "overlap": chance * counts.judged if told else np.nan,
    }
    return pd.DataFrame({"experiment": experiment, **SAME, **columns})


def _counts(drawn: Drawn, temperature: float, arm: Arm, rng: np.random.Generator) -> Counts:
    if temperature != GREEDY:
        return draw_counts(drawn.prompts, draw_lengths(drawn.prompts, rng), arm, rng)
    if arm not in drawn.greedy:
        drawn.greedy[arm] = draw_counts(drawn.prompts, drawn.lengths, arm, rng)
    return drawn.greedy[arm]


def manifest_of(run: str, suites: Iterable[str], arms: Arms, seed: int) -> Manifest:
    """What a simulated run would be."""
    factors = [ArmFactors(PLAIN, "none", 0, "none", "native", lossless="proven")]
    factors += [
        ArmFactors(name, "mtp", arm.k, "rejection", "native", lossless="proven")
        for name, arm in arms.items()
    ]
    identity = Identity(
        suites={name: {"version": "1", "digest": name, "split": "test"} for name in suites},
        target="simulated",
        target_revision="1",
        weight_hash="none",
        dtype="float32",
        device="cpu",
        sampling=tuple({"temperature": one} for one in (GREEDY, SAMPLED)),
        max_new_tokens=512,
        stop=(),
        concurrency=(1,),
        arrival="closed loop",
        template_hash="none",
        thinking="off",
        prefix_cache="off",
        history="plain",
        system_policy="merge-into-user",
    )
    return Manifest(
        run=run,
        title="simulated",
        created="2026-01-01T00:00:00+00:00",
        identity=identity,
        arms=tuple(factors),
        suites=(),
        experiment={"name": "simulated"},
        planned=0,
        seed=seed,
    )


def summary_of(run: str, suites: Iterable[str], arms: Arms) -> Summary:
    """A complete run whose output is the target's."""
    rows = [
        SummaryRow(suite, temperature, 1, name, 0, "rejection", "proven", word, "", {})
        for suite in suites
        for temperature, word in ((GREEDY, "identical"), (SAMPLED, "passed"))
        for name in arms
    ]
    return Summary(
        run=run,
        title="simulated",
        target="simulated",
        dtype="float32",
        device="cpu",
        complete=True,
        planned=0,
        ok=0,
        failed=0,
        skipped=0,
        conversations=0,
        resumes=0,
        sentence="",
        rows=tuple(rows),
        warnings=(),
        failures=(),
    )


def write_run(
    folder: Path, rows: pd.DataFrame, suites: Sequence[str], arms: Arms, seed: int
) -> None:
    """A run folder with manifest, items and summary."""
    folder.mkdir(parents=True)
    files = RunFolder(folder)
    document = manifest_document(manifest_of(folder.name, suites, arms, seed))
    files.manifest.write_text(strict_json(document), "utf-8")
    files.summary_json.write_text(summary_text(summary_of(folder.name, suites, arms)), "utf-8")
    rows.to_csv(files.items, columns=list(COLUMNS), index=False)


def run_rows(
    folder: Path, rows: pd.DataFrame, suites: Sequence[str], arms: Arms, seed: int
) -> RunRows:
    """A run whose records are in memory; its folder holds at most a summary."""
    return RunRows(RunFolder(folder), manifest_of(folder.name, suites, arms, seed), rows)

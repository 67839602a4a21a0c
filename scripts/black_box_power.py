"""How soon a replay finds what a black box does wrong, and how often it accuses one that is right.

Outputs of a table model, drawn under other settings than asked for or by a lenient rule, are judged
by rows that list 20 tokens, by whole rows, and beside the suspected draft. See docs/fidelity.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

import click
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from specbench.core.request import RequestKey, Sampling
from specbench.core.trace import Granularity, Trace
from specbench.decoding.protocols import Rule
from specbench.decoding.sampling import draw, probabilities
from specbench.fidelity.bounded import bounded_evidence, doubts
from specbench.fidelity.columns import Columns, columns
from specbench.fidelity.doubts import Doubts
from specbench.fidelity.eprocess import EProcess
from specbench.fidelity.kept import TopRow
from specbench.fidelity.verdict import ALPHA, Status, judge
from specbench.laws.positions import Positions, random_positions
from specbench.laws.power import DETECTION
from specbench.verify.lenient import RULE as LENIENT
from specbench.verify.rejection import RULE as REJECTION

TABLES, SIZE, TOP, SPREAD, NOISE = 10, 64, 20, 2.0, 0.8
LENGTH, CELL, PATIENCE = 40, 2000, 8000
"""Tokens of one output, of a cell that is judged, and after which a search gives up."""
LISTED, WHOLE, DRAFT = f"{TOP} listed", "all listed", "all listed, --draft"

Emit = Callable[[Positions, np.random.Generator], Tensor]
Entries = NDArray[np.int64]  # what was emitted behind what: token before * SIZE + token
Evidence = tuple[Columns, Doubts | None]


def plain(sampling: Sampling) -> Emit:
    """Draws from the target under the settings that are really applied."""
    return lambda rows, generator: draw(
        probabilities(rows.logits, [sampling] * len(rows.logits)),
        torch.from_numpy(generator.random(len(rows.logits))),
    )


def speculative(rule: Rule, share: float = 1.0) -> Emit:
    """A rule at a share of the tokens, drawn at random; the others have no draft."""
    return lambda rows, generator: torch.where(
        torch.from_numpy(generator.random(len(rows.logits)) < share),
        rows.emit(rule, generator),
        plain(rows.sampling)(rows, generator),
    )


@dataclass(frozen=True, slots=True)
class Case:
    """What was asked for, what was served, and the kinds of evidence it is judged by."""

    asked: str
    sampling: Sampling
    served: str
    emit: Emit
    judged_by: tuple[str, ...] = (LISTED, WHOLE)


WARM, HOT, NUCLEUS = Sampling(0.7), Sampling(1.0), Sampling(0.7, top_p=0.9)
FLAT = Sampling(1.3, top_k=15)
LOOSE = LENIENT.configure({"lenience": 0.8})
DEFECTS = (
    Case("T = 0.7", WARM, "T = 1", plain(HOT)),
    Case("T = 0.7", WARM, "T = 0.5", plain(Sampling(0.5))),
    Case("T = 0.7", WARM, "greedy", plain(Sampling(0.0))),
    Case("T = 0.7, top-p 0.9", NUCLEUS, "top-p ignored", plain(WARM)),
    Case("T = 0.7", WARM, "lenience 0.8", speculative(LOOSE), (LISTED, WHOLE, DRAFT)),
    Case("T = 0.7", WARM, "lenience 0.8, half drafted", speculative(LOOSE, 0.5), (DRAFT,)),
)
RIGHT = (
    Case("T = 0.7", WARM, "as asked", plain(WARM)),
    Case("T = 1", HOT, "as asked", plain(HOT)),
    Case("T = 0.7, top-p 0.9", NUCLEUS, "as asked", plain(NUCLEUS)),
    Case("T = 1.3, top-k 15", FLAT, "as asked", plain(FLAT)),
    Case("T = 0.7", WARM, "rejection", speculative(REJECTION), (DRAFT,)),
    Case("T = 0.7", WARM, "rejection, half drafted", speculative(REJECTION, 0.5), (DRAFT,)),
)


def evidence(table: Positions, kind: str) -> Evidence:
    """Of every token behind every token, as a replay makes it; it depends on nothing else."""
    before, tokens = torch.arange(SIZE).repeat_interleave(SIZE), torch.arange(SIZE).repeat(SIZE)
    if kind == DRAFT:
        return behind(table, before).columns(tokens, np.random.default_rng(0)), None
    top = TOP if kind == LISTED else SIZE
    logs, order = table.logits.double().log_softmax(1).sort(dim=1, descending=True, stable=True)
    rows = [TopRow(order[i, :top].numpy(), logs[i, :top].numpy(), SIZE) for i in range(SIZE)]
    ids, key = tokens.tolist(), RequestKey("table", kind, 0, table.sampling.temperature, 0)
    found = bounded_evidence([rows[i] for i in before.tolist()], ids, table.sampling)
    trace = Trace(key, "served", 1, "", Granularity.REQUEST, 0, 1, "", 0, ids, evidence=found)
    return columns([trace]), doubts([trace])


def chosen(whole: Evidence, at: Entries, generator: np.random.Generator) -> Evidence:
    """Evidence of the tokens of one cell [n], each with a new V of its randomised PIT."""
    arrays = {f.name: getattr(whole[0], f.name)[at] for f in fields(Columns)}
    found, known = Columns(**arrays | {"uniform": generator.random(len(at))}), whole[1]
    if known is None:
        return found, None
    bounds = {name: getattr(known, name)[at] for name in ("log", "entropy", "pit", "excess")}
    return found, replace(known, **bounds)


def behind(table: Positions, before: Tensor) -> Positions:
    """The rows behind given tokens."""
    return Positions(table.logits[before], table.draft[before], table.sampling, table.sampled)


def outputs(table: Positions, emit: Emit, count: int, generator: np.random.Generator) -> Entries:
    """``count`` outputs behind random tokens, [count, LENGTH]."""
    before, entries = torch.from_numpy(generator.integers(SIZE, size=count)), []
    for _ in range(LENGTH):
        token = emit(behind(table, before), generator)
        entries.append(before * SIZE + token)
        before = token
    return torch.stack(entries, 1).numpy()


def needed(found: Columns, known: Doubts | None) -> float:
    """Tokens until the e-process detects or one lies outside the support; infinite = neither."""
    process = EProcess()
    process.update(found, None if known is None else known.excess)
    first = [*np.flatnonzero(found.outside)[:1].tolist(), process.detected_at(DETECTION)]
    return 1 + min((index for index in first if index is not None), default=np.inf)


def alarmed(found: Columns, known: Doubts | None) -> float:
    """1 where the verdict on one cell is a failure."""
    return float(judge({"": found}, ALPHA, doubts={"": known})[""].status is Status.FAILED)


def measured(
    cases: tuple[Case, ...], tokens: int, said: Callable[..., float], seed: int, each: int
) -> Iterator[tuple[dict[str, str], dict[str, list[float]]]]:
    """Per case its names, and by kind of evidence what is said of ``each`` cells of every table."""
    for case in cases:
        found: dict[str, list[float]] = {kind: [] for kind in case.judged_by}
        for index in range(TABLES):
            # The same tables for every case; the draft follows the settings that were asked for.
            generator = np.random.default_rng([seed, index])
            table = random_positions(SIZE, SIZE, case.sampling, SPREAD, NOISE, generator)
            runs = outputs(table, case.emit, each * tokens // LENGTH, generator)
            for kind in case.judged_by:
                whole = evidence(table, kind)
                cells = (chosen(whole, run, generator) for run in runs.reshape(each, tokens))
                found[kind] += [said(*cell) for cell in cells]
        yield {"asked": case.asked, "served": case.served}, found


def spread(needed: list[float]) -> str:
    """Median and quartiles of tokens; where one was not reached, how many searches ended."""
    low, median, high = np.quantile(needed, [0.25, 0.5, 0.75], method="higher")
    if np.isinf(high):
        return f"found in {np.isfinite(needed).sum()} of {len(needed)}"
    return f"{median:.0f} [{low:.0f}, {high:.0f}]"


@click.command()
@click.option("--seed", default=1, show_default=True)
@click.option("--each", default=20, show_default=True, help="Searches or cells per case and table.")
@click.option("--out", type=click.Path(path_type=Path), default="results/black_box.json")
def main(seed: int, each: int, out: Path) -> None:
    """Measure and write; some three minutes on one core."""
    torch.set_num_threads(1)
    result = {
        "command": f".venv/bin/python scripts/black_box_power.py --seed {seed} --each {each}",
        "settings": {
            "vocabulary": SIZE, "spread": SPREAD, "draft_noise": NOISE, "tables": TABLES,
            "output_tokens": LENGTH, "detection": DETECTION, "gives_up_after": PATIENCE,
            "alpha": ALPHA, "cell_tokens": CELL, "searches": TABLES * each, "cells": TABLES * each,
        },
        "power": [
            names | {kind: spread(values) for kind, values in found.items()}
            for names, found in measured(DEFECTS, PATIENCE, needed, seed, each)
        ],
        "false_alarms": [
            names | {kind: f"{sum(values):g} of {len(values)}" for kind, values in found.items()}
            for names, found in measured(RIGHT, CELL, alarmed, seed, each)
        ],
    }  # fmt: skip
    out.write_text(json.dumps(result, indent=2, allow_nan=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()

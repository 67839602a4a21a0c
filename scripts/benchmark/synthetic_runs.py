"""Run folders whose numbers are made up, to time what reads many of them.

Manifest and summary are those of a run that was measured, cut down to one temperature and to plain
and one drafter, so that they are as long as real ones. items.csv is drawn: outputs of lognormal
length, prompts that are more or less predictable for every drafter, runs that draft more or less
well, and times with a load that both arms of a prompt share and a heavy tail. There are no traces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specbench.core.arm import PLAIN
from specbench.core.manifest import Manifest
from specbench.results.items import COLUMNS, csv_text
from specbench.results.read import load_manifest
from specbench.results.schema import manifest_document, strict_json
from specbench.results.store import RunFolder, write_atomic
from specbench.results.summary import Figure, Summary, SummaryRow, read_summary, summary_text

Floats = NDArray[np.float64]
ARM, K = "mtp", 3
"""A chain, so that accept rates are compared as well."""
TEMPERATURE = 0.0
PLAIN_STEP_MS, DRAFTED_STEP = 40.0, 1.35
"""A step of plain decoding, and one with a draft over it."""
LONGEST = 256


@dataclass(frozen=True, slots=True)
class Prompts:
    """What is the same in every run, one entry per prompt.

    Attributes:
        suite, item: names.
        tokens: of the output, the first one left out; greedy outputs are plain's.
        ease: log odds with which a draft token is accepted, above those of the run.
        looping: whether plain repeats itself.
    """

    suite: list[str]
    item: list[str]
    tokens: NDArray[np.int64]
    ease: Floats
    looping: NDArray[np.bool_]


def write_runs(out: Path, like: RunFolder, runs: int, prompts: int, seed: int = 1) -> list[Path]:
    """Write so many runs of so many prompts, each decoded by plain and by one drafter.

    Args:
        out: where the folders are made.
        like: a run with the arms plain and ``ARM`` at ``TEMPERATURE``.
    """
    manifest, summary = _cut_down(load_manifest(like), read_summary(like), prompts)
    shared = _prompts(manifest, prompts, np.random.default_rng(seed))
    made = []
    for number in range(runs):
        rng = np.random.default_rng([seed, number])
        folder = RunFolder(out / f"made-{number:03}")
        folder.path.mkdir()
        columns = _columns(shared, rng)
        named = replace(manifest, run=folder.path.name)
        write_atomic(folder.manifest, strict_json(manifest_document(named)))
        write_atomic(folder.items, csv_text(COLUMNS, _rows(shared, columns, rng)))
        told = replace(summary, run=named.run, rows=tuple(_told(summary, columns)))
        write_atomic(folder.summary_json, summary_text(told))
        made.append(folder.path)
    return made


def _cut_down(manifest: Manifest, summary: Summary, prompts: int) -> tuple[Manifest, Summary]:
    arms = tuple(manifest.arm(name) for name in (PLAIN, ARM))
    sampling = tuple(s for s in manifest.identity.sampling if s["temperature"] == TEMPERATURE)
    shares = np.bincount(np.arange(prompts) % len(manifest.suites))
    suites = tuple(
        replace(suite, items=int(count), turns=int(count))
        for suite, count in zip(manifest.suites, shares, strict=True)
    )
    identity = replace(manifest.identity, sampling=sampling, max_new_tokens=LONGEST)
    planned = prompts * len(arms)
    counts = {suite.name: suite.items for suite in suites}
    rows = tuple(
        replace(row, prompts=counts.get(row.suite, prompts))
        for row in summary.rows
        if row.temperature == TEMPERATURE and row.arm in (PLAIN, ARM)
    )
    return (
        replace(manifest, identity=identity, arms=arms, suites=suites, planned=planned),
        replace(summary, rows=rows, planned=planned, ok=planned, failed=0, skipped=0),
    )


def _prompts(manifest: Manifest, count: int, rng: np.random.Generator) -> Prompts:
    names = [suite.name for suite in manifest.suites]
    suite = [names[place % len(names)] for place in range(count)]
    # Prompts of a suite are alike.
    common = dict(zip(names, rng.normal(0.0, 0.5, len(names)), strict=True))
    return Prompts(
        suite,
        [f"{name}-{place:04}" for place, name in enumerate(suite)],
        np.clip(rng.lognormal(4.5, 0.6, count), 8, LONGEST - 1).astype(np.int64),
        np.array([common[name] for name in suite]) + rng.normal(0.0, 0.7, count),
        rng.random(count) < 0.1,
    )


def _columns(prompts: Prompts, rng: np.random.Generator) -> Mapping[str, Mapping[str, Floats]]:
    """Arm -> counts and times of its requests."""
    tokens = prompts.tokens.astype(np.float64)
    count = len(tokens)
    accepted = 1 / (1 + np.exp(-(rng.normal(0.3, 0.6) + prompts.ease)))
    # Of a chain of K drafts, each accepted with one chance.
    length = (1 - accepted ** (K + 1)) / (1 - accepted)
    steps = np.ceil(tokens / np.clip(length * rng.normal(1, 0.05, count), 1, K + 1))
    load = np.exp(rng.normal(0.0, 0.05, count))
    found = {}
    for arm, taken, cost in ((PLAIN, tokens, 1.0), (ARM, steps, DRAFTED_STEP)):
        tail = 1 + 0.01 * rng.pareto(2.0, count)
        first = 4 * PLAIN_STEP_MS * load * tail * 1e6
        decode = taken * cost * PLAIN_STEP_MS * load * tail * 1e6
        found[arm] = {"steps": taken, "first_token_ns": first, "decode_ns": decode}
    return found


def _rows(
    prompts: Prompts, columns: Mapping[str, Mapping[str, Floats]], rng: np.random.Generator
) -> Iterator[list[str]]:
    for place, item in enumerate(prompts.item):
        for order, (arm, found) in enumerate(columns.items()):
            steps, first, decode = (int(column[place]) for column in found.values())
            row = _row(prompts, place, item) | _counts(int(prompts.tokens[place]), steps, arm)
            row |= {
                "arm": arm,
                "order": str(order),
                "first_token_ns": str(first),
                "last_token_ns": str(first + decode),
                "decode_ns": str(decode),
                "trace_sha256": rng.bytes(32).hex(),
            }
            yield [row.get(name, "") for name in COLUMNS]


def _row(prompts: Prompts, place: int, item: str) -> dict[str, str]:
    """What is the same for all arms of a prompt."""
    tokens, suite = int(prompts.tokens[place]), prompts.suite[place]
    hashed = sha256(item.encode()).hexdigest()
    zeros = dict.fromkeys(("turn", "repeat", "resumed", "start"), "0")
    return zeros | {
        "suite": suite,
        "item": item,
        "category": suite,
        "split": "test",
        "temperature": repr(TEMPERATURE),
        "concurrency": "1",
        "unit": f"{suite}:T{TEMPERATURE}:r0:c1:{item}",
        "finish": "length",
        "seed": str(int(hashed[:15], 16)),
        "prompt_tokens": str(20 + int(hashed[:2], 16)),
        "prompt_sha256": hashed,
        "settings_sha256": hashed[::-1],
        "output_tokens": str(tokens + 1),
        "output_sha256": hashed,
        "decode_tokens": str(tokens),
        "degenerate": str(int(prompts.looping[place])),
    }


def _counts(tokens: int, steps: int, arm: str) -> dict[str, str]:
    drafted = 0 if arm == PLAIN else K * steps
    nodes = dict.fromkeys(("proposed", "verified", "judged"), str(drafted))
    return nodes | {
        "steps": str(steps),
        "accepted": str(tokens - steps),
        "committed": str(tokens),
    }


def _told(summary: Summary, columns: Mapping[str, Mapping[str, Floats]]) -> Iterator[SummaryRow]:
    """The summary's rows with the speed-up over all requests, as ranks go by it."""
    times = {arm: float(found["decode_ns"].sum()) for arm, found in columns.items()}
    value = times[PLAIN] / times[ARM]
    for row in summary.rows:
        figures = {
            name: Figure(value, "x", value * 0.97, value * 1.03, row.prompts)
            for name in ("speedup", "speedup_sound")
        }
        yield replace(row, figures={**row.figures, **figures}) if row.arm == ARM else row

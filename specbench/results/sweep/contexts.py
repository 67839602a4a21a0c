"""The best K by context bucket: decode time per token of the requests whose prompt is that long.

A block of requests mixes contexts, so that its makespan belongs to none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specbench.core.arm import PLAIN
from specbench.core.quantity import Quantity
from specbench.results.compare.contrast import contrasts
from specbench.results.compare.joined import Joined, Places, join
from specbench.results.compare.sides import RunRows, open_run
from specbench.results.compare.split import ALL, BUCKETS, SOUND, groups
from specbench.results.compare.totals import totals_of
from specbench.results.store import RunFolder
from specbench.stats.bootstrap import FEWEST_UNITS

MEASURE = "itl"


@dataclass(frozen=True, slots=True)
class ContextChoice:
    """Who is the fastest at one length of prompts.

    Attributes:
        context: the bucket.
        prompts: in it.
        best: the fastest of those that were measured.
        decided: whether it surely is: every other one's interval against it excludes 1.
        times_plain: plain's decode time per token over that of the best, with its interval.
        why: what stands in the way of a decision; empty where there is one.
    """

    context: str
    prompts: int
    best: str
    decided: bool
    times_plain: Quantity
    why: str = ""


def by_context(folder: RunFolder, names: Sequence[str]) -> list[ContextChoice]:
    """The choice in every bucket of a run at one load; empty where all prompts are in one.

    Args:
        names: arms that count, plain among them or not: it is the reference and always counts.
    """
    run = open_run(str(folder.path), folder.path.parent)
    if len(set(np.searchsorted(BUCKETS, run.rows["prompt_tokens"].to_numpy()))) < 2:
        return []
    drafting = [name for name in names if name != PLAIN]
    found = {name: _joined(run, PLAIN, name) for name in drafting}
    buckets = list(dict.fromkeys(label for rows in found.values() for label in rows))
    return [
        _choice(run, label, {name: rows[label] for name, rows in found.items() if label in rows})
        for label in buckets
    ]


Part = tuple[Joined, Places]


def _joined(run: RunRows, base: str, new: str) -> Mapping[str, Part]:
    """Bucket -> requests of two arms."""
    joined = join(run.side(base), run.side(new))
    return {
        group.name: (joined, places)
        for group, places in groups(joined, "context")
        if group.name not in (ALL, SOUND)
    }


def _choice(run: RunRows, label: str, parts: Mapping[str, Part]) -> ContextChoice:
    ratios = {name: _ratio(run, part) for name, part in parts.items()}
    times = {PLAIN: 1.0} | {name: q.number() for name, q in ratios.items() if q.known}
    best = min(times, key=lambda name: times[name])
    prompts = max(_prompts(*part) for part in parts.values())
    unsure = [name for name in times if name != best and not _surely(run, label, best, name)]
    why = ""
    if unsure:
        why = f"not told apart from {', '.join(unsure)}"
    if prompts < FEWEST_UNITS:
        why = f"{prompts} prompts, {FEWEST_UNITS} are needed"
    plain = Quantity(1.0, "x") if best == PLAIN else _turned(ratios[best])
    return ContextChoice(label, prompts, best, not why, plain, why)


def _surely(run: RunRows, label: str, best: str, other: str) -> bool:
    """Whether the other one surely takes longer per token than the best."""
    part = _joined(run, best, other).get(label)
    if part is None:
        return False
    low = _ratio(run, part).low
    return low is not None and low > 1


def _ratio(run: RunRows, part: Part) -> Quantity:
    """Decode time per token, new over base."""
    (found,) = contrasts([totals_of(MEASURE, *part)], run.manifest.seed)
    return found.ratio


def _turned(ratio: Quantity) -> Quantity:
    """base over new."""
    low = None if ratio.high is None else 1 / ratio.high
    high = None if ratio.low is None else 1 / ratio.low
    return Quantity(1 / ratio.number(), "x", low, high, ratio.level, ratio.n, ratio.method)


def _prompts(joined: Joined, places: Places) -> int:
    return len(np.unique(joined.prompts[places]))

"""Ranks of entries that measured the same; entries that no test tells apart share one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specbench.results.compare.joined import join
from specbench.results.compare.measures import SPEEDUP
from specbench.results.compare.split import ALL, SOUND, groups
from specbench.results.compare.totals import Absent, totals_of
from specbench.results.leaderboard.entries import Entry
from specbench.stats.power import ALPHA


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """An entry with its rank, and whether others have the same."""

    entry: Entry
    rank: int
    tied: bool


def places(found: Iterable[Entry]) -> dict[tuple[str, float, int], list[Entry]]:
    """Entries by what they measured, at which temperature and load."""
    grouped: dict[tuple[str, float, int], list[Entry]] = {}
    for entry in found:
        grouped.setdefault(entry.place, []).append(entry)
    return grouped


def rank(found: Sequence[Entry]) -> list[Ranked]:
    """Ranks by measured speed-up, the largest first.

    An entry shares the rank of the first of a rank unless a paired comparison on the same requests
    shows that it is worse.
    """
    order = sorted(found, key=lambda entry: -(entry.speedup.value or 0.0))
    ranks: list[int] = []
    leader = 0
    for number, entry in enumerate(order):
        if number and _worse(order[leader], entry):
            leader = number
        ranks.append(leader + 1)
    return [
        Ranked(entry, place, ranks.count(place) > 1)
        for entry, place in zip(order, ranks, strict=True)
    ]


def _worse(leader: Entry, entry: Entry) -> bool:
    if leader.side is None or entry.side is None:
        return True
    joined = join(leader.side, entry.side)
    wanted = entry.row.temperature, entry.row.concurrency
    parts = {
        group.name: some
        for group, some in groups(joined, "temperature")
        if (group.temperature, group.concurrency) == wanted
    }
    measured = parts.get(SOUND, parts.get(ALL))
    if measured is None:
        return True
    seed = leader.manifest.seed
    made = totals_of(SPEEDUP, joined, measured)
    if isinstance(made, Absent):
        return False
    # What ``verdict.judge`` calls worse, without the test where the interval has said no.
    high = made.ratio(seed).high
    return high is not None and high < 1 and made.p(seed) <= ALPHA

"""Counters in the Prometheus text format: two snapshots and what lies between them (case C7).

Counters run since a server's start, so that only differences say anything about what was measured.
Gauges and ``_created`` times are never counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from specbench.engines.telemetry.reasons import RESTARTED

STARTED = "process_start_time_seconds"
POSITION = "position"

Series = tuple[str, str, tuple[tuple[str, str], ...]]
"""Address, name and sorted labels of one series."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counters of all replicas at one moment; ``born`` holds when each process started."""

    values: Mapping[Series, float]
    born: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Deltas:
    """Growth of each counter, summed over engines and replicas.

    ``by_position`` is the growth per draft position, from 0, for series that have that label.
    """

    totals: Mapping[str, int]
    by_position: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


def snapshot(texts: Mapping[str, str], names: Iterable[str]) -> Snapshot:
    """The wanted counters of every replica.

    Args:
        texts: address -> what it answered.
        names: sample names, all ending in ``_total``.

    Raises:
        ValueError: an answer is not in the Prometheus text format; the message names the address.
    """
    wanted = frozenset(names)
    values: dict[Series, float] = {}
    born: dict[str, float] = {}
    for url, text in texts.items():
        try:
            families = list(text_string_to_metric_families(text))
        except (ValueError, KeyError) as error:
            raise ValueError(f"{url} is not in the Prometheus text format: {error}") from error
        for sample in (sample for family in families for sample in family.samples):
            if sample.name in wanted:
                values[url, sample.name, tuple(sorted(sample.labels.items()))] = sample.value
            elif sample.name == STARTED:
                born[url] = sample.value
    return Snapshot(values, born)


def deltas(before: Snapshot, after: Snapshot) -> Deltas:
    """What was counted between two snapshots.

    A series that is new started at 0: servers create those of an engine or a position when they
    first count there.

    Raises:
        ValueError: a counter fell, vanished, or its process started in between.
    """
    restarted = [url for url, born in before.born.items() if after.born.get(url, born) != born]
    fallen = [
        series for series, value in before.values.items() if after.values.get(series, -1.0) < value
    ]
    if restarted or fallen:
        where = restarted[0] if restarted else fallen[0][0]
        raise ValueError(f"{RESTARTED}: the counters of {where} began anew within the measurement")
    totals: dict[str, int] = {}
    positions: dict[str, dict[int, int]] = {}
    for series, value in after.values.items():
        _, name, labels = series
        grown = round(value - before.values.get(series, 0.0))
        totals[name] = totals.get(name, 0) + grown
        position = dict(labels).get(POSITION, "")
        if position.isdigit():
            held = positions.setdefault(name, {})
            held[int(position)] = held.get(int(position), 0) + grown
    return Deltas(totals, positions)

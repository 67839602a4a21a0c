"""Prefixes that came from a cache: unequal between arms, or where there should be none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specbench.core.trace import Trace
from specbench.measure.guards.guard import Around, Guard
from specbench.metrics.timeline import finished
from specbench.metrics.units import Pair


def cache_guards(arm: Sequence[Trace], joined: Sequence[Pair], around: Around) -> Iterator[Guard]:
    """Servers that do not say how many tokens were cached raise nothing."""
    unequal = [
        pair
        for pair in joined
        if pair.arm.cached_tokens is not None
        and pair.plain.cached_tokens is not None
        and pair.arm.cached_tokens != pair.plain.cached_tokens
    ]
    if unequal:
        first = unequal[0]
        yield Guard(
            "unequal_cached_tokens",
            f"cached prompt tokens differ on {len(unequal)} of {len(joined)} pairs, first "
            f"{first.arm.key.item}: {first.arm.cached_tokens} against plain's "
            f"{first.plain.cached_tokens}",
            "do not compare TTFT or request times; use prefix_cache = 'off'",
        )
    used = [trace for trace in finished(arm) if trace.cached_tokens]
    if around.prefix_cache == "off" and used:
        most = max(trace.cached_tokens or 0 for trace in used)
        yield Guard(
            "prefix_cache_used",
            f"prefix_cache = 'off', but {len(used)} requests had cached tokens, at most {most}",
            "switch the cache off where the server is started, or declare prefix_cache = 'cold'",
        )

"""What memory allows a run, as its manifest holds it."""

from __future__ import annotations

from pydantic import TypeAdapter

from specbench.core.limit import Limit
from specbench.core.manifest import Manifest
from specbench.results.calibrated import calibrated

LIMITED = frozenset({"limit_share"})
"""Metrics that need it: tables of runs in which it is not known do without."""

_LIMIT = TypeAdapter(Limit)


def memory_limit(manifest: Manifest) -> Limit | None:
    """What was found before the run; None where nothing was, and for older runs.

    Raises:
        ResultError: the manifest holds something else in that place.
    """
    return calibrated(manifest, "limit", _LIMIT)


def limit_words(limit: Limit | None) -> str:
    """What is read and how fast, for people; empty where nothing is known."""
    if limit is None:
        return ""
    keys = limit.reads.kv_per_token
    context = f" and {keys / 1e3:.3g} kB per token of context" if keys else ""
    read = f"{limit.reads.weights / 1e6:.4g} MB of weights{context}"
    rate = f"{limit.bandwidth / 1e9:.3g} GB/s ({limit.source})"
    return f"of the decode steps' time: reading {read} at {rate}"

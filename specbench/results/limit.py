"""What memory allows a run, as its manifest holds it."""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError

from specbench.core.limit import Limit
from specbench.core.manifest import Manifest
from specbench.results.schema import ResultError

LIMITED = frozenset({"limit_share"})
"""Metrics that need it: tables of runs in which it is not known do without."""

_LIMIT = TypeAdapter(Limit)


def memory_limit(manifest: Manifest) -> Limit | None:
    """What was found before the run; None where nothing was, and for older runs.

    Raises:
        ResultError: the manifest holds something else in that place.
    """
    document = manifest.calibration.get("limit")
    if document is None:
        return None
    try:
        return _LIMIT.validate_python(document)
    except ValidationError as error:
        item = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in ("calibration", "limit", *item["loc"]))
        raise ResultError(
            f"manifest of run {manifest.run}: {key} = {item['input']!r}: {item['msg']}",
            "restore manifest.json",
        ) from error


def limit_words(limit: Limit | None) -> str:
    """What is read and how fast, for people; empty where nothing is known."""
    if limit is None:
        return ""
    keys = limit.reads.kv_per_token
    context = f" and {keys / 1e3:.3g} kB per token of context" if keys else ""
    read = f"{limit.reads.weights / 1e6:.4g} MB of weights{context}"
    rate = f"{limit.bandwidth / 1e9:.3g} GB/s ({limit.source})"
    return f"of the decode steps' time: reading {read} at {rate}"

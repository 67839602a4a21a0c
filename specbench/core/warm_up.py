"""Requests outside the measurement, told by their keys, so that nothing of them stays in it."""

from __future__ import annotations

from specbench.core.request import RequestKey

_PREFIX = "warm-up/"


def warm_up_key(suite: str, item: str, temperature: float) -> RequestKey:
    """The key of an item that is decoded outside the measurement."""
    return RequestKey(f"{_PREFIX}{suite}", item, 0, temperature, 0)


def is_warm_up(key: RequestKey) -> bool:
    """Whether a request is outside the measurement."""
    return key.suite.startswith(_PREFIX)

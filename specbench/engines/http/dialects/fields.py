"""JSON fields that several kinds of servers share, read without trust and written as they want."""

from __future__ import annotations

from collections.abc import Mapping

from specbench.core.request import Request
from specbench.errors import UsageError

SINGLE_DIGITS = 7
"""Significant decimal digits that a float32 keeps."""


def count(data: Mapping[str, object], key: str) -> int | None:
    """A whole number at least 0; None where the key is absent, null or something else."""
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value == int(value) and value >= 0 else None


def number(data: Mapping[str, object], key: str) -> float | None:
    """A number; None where the key is absent, null or something else."""
    value = data.get(key)
    return None if isinstance(value, bool) or not isinstance(value, int | float) else float(value)


def text(data: Mapping[str, object], key: str) -> str:
    """A string; empty where the key is absent, null or something else."""
    value = data.get(key)
    return value if isinstance(value, str) else ""


def table(data: Mapping[str, object], key: str) -> Mapping[str, object]:
    """An object; empty where the key is absent, null or something else."""
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def counts(data: Mapping[str, object], key: str) -> list[int] | None:
    """A list of whole numbers at least 0; None where it is anything else."""
    value = data.get(key)
    if not isinstance(value, list):
        return None
    whole = all(
        isinstance(item, int) and not isinstance(item, bool) and item >= 0 for item in value
    )
    return list(value) if whole else None


def token_ids(data: Mapping[str, object], key: str) -> tuple[int, ...] | None:
    """Token ids; None where the server does not show them."""
    found = counts(data, key)
    return None if found is None else tuple(found)


def single(value: float) -> float:
    """The short decimal behind a number that went through a float32: 0.8, not 0.800000011920929."""
    return float(f"{value:.{SINGLE_DIGITS}g}")


def fold_seed(seed: int, bound: int) -> int:
    """A seed below ``bound`` for servers whose seeds are shorter than ours; the same every time."""
    return seed % bound


def require_no_minimum(request: Request, server: str) -> None:
    """Raise UsageError where the request has a minimum length that this server cannot keep."""
    if request.limits.min_new_tokens:
        raise UsageError(
            f"min_new_tokens {request.limits.min_new_tokens}: {server} has no minimum length",
            "set min_new_tokens to 0, or to max_new_tokens for outputs of equal length",
        )


def first(data: Mapping[str, object], key: str) -> Mapping[str, object]:
    """The first object of a list; empty where there is none."""
    value = data.get(key)
    found = value[0] if isinstance(value, list) and value else None
    return found if isinstance(found, Mapping) else {}

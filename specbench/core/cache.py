"""Where specbench keeps what it fetched, and whether it may fetch at all."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder for fetched things: SPECBENCH_CACHE, XDG_CACHE_HOME or ~/.cache."""
    if own := os.environ.get("SPECBENCH_CACHE"):
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "specbench"


def is_offline(offline: bool | None = None) -> bool:
    """Whether the network is off limits: the argument, else HF_HUB_OFFLINE (1, on, yes, true)."""
    if offline is not None:
        return offline
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}

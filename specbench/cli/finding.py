"""What a check of `specbench doctor` says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """``MISSING`` keeps the native engine from running; ``OPTIONAL`` costs one ability."""

    OK = "ok"
    MISSING = "missing"
    OPTIONAL = "optional"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: what was looked at, how it stands, what was found, and the next step."""

    name: str
    status: Status
    found: str
    fix: str = ""

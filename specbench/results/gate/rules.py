"""What a gate asks: gate.toml, or the default."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from specbench.catalog import nearest
from specbench.errors import UsageError
from specbench.results.compare.measures import MEASURES, SPEEDUP

NAMES = (*MEASURES, SPEEDUP)
ALPHA = 1e-3
"""Chance of a false failure that one check is made for."""


class _Border(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Check(_Border):
    """One measure, and how much worse it may be.

    ``allow`` is relative: 0.02 = 2 %. ``by`` splits the requests: every group is checked.
    """

    metric: str
    allow: Annotated[float, Field(ge=0, lt=1)]
    by: Literal["temperature", "suite", "category", "context"] = "temperature"

    @field_validator("metric")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in NAMES:
            raise ValueError(f"unknown; {nearest(value, list(NAMES))}")
        return value


class GateRules(_Border):
    """gate.toml.

    ``alpha`` is the chance of a false failure that a check is made for. Fidelity and success rate
    are always checked; ``allow_failures`` is the share of the baseline's requests that may be lost.
    """

    schema_version: Literal[1] = 1
    alpha: Annotated[float, Field(gt=0, le=0.05)] = ALPHA
    allow_failures: Annotated[float, Field(ge=0, lt=1)] = 0.0
    check: Annotated[list[Check], Field(min_length=1)]


DEFAULT = GateRules(
    check=[Check(metric="accept_length", allow=0.02), Check(metric=SPEEDUP, allow=0.05)]
)
"""Without a file: both are ratios that another machine state does not move."""


def read_rules(path: Path) -> GateRules:
    """A gate.toml; UsageError names every key that is wrong."""
    try:
        return GateRules.model_validate(tomllib.loads(path.read_text("utf-8")))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}", "name another file") from (
            error
        )
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: not a TOML file: {error}", "mend it") from error
    except ValidationError as error:
        lines = [
            f"{'.'.join(map(str, item['loc']))} = {item['input']!r}: {item['msg']}"
            for item in error.errors(include_url=False)
        ]
        raise UsageError(f"{path}: {'; '.join(lines)}", "docs/ci.md shows such a file") from error


def checks_of(words: tuple[str, ...]) -> list[Check]:
    """Checks as flags name them: ``accept_length=2%`` or ``itl=0.1``; UsageError says how."""
    found = []
    for word in words:
        name, separator, allowed = word.partition("=")
        try:
            share = float(allowed.removesuffix("%")) / (100 if allowed.endswith("%") else 1)
            found.append(Check(metric=name, allow=share))
        except (ValueError, ValidationError) as error:
            reason = (
                error.errors(include_url=False)[0]["msg"]
                if isinstance(error, ValidationError)
                else "no share"
                if separator
                else "no allowed change"
            )
            raise UsageError(
                f"--check {word}: {reason}", "write it as metric=share: --check accept_length=2%"
            ) from error
    return found

"""What a law check found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a check ended; only a check that could have failed may pass."""

    PASSED = "passed"
    FAILED = "FAILED"
    TOO_FEW = "too few"
    """The samples could not have shown a defect."""
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Finding:
    """How one check ended.

    Attributes:
        status: passed or not.
        detail: what was found, in one line.
        off: total variation between what was found and what should have been; None where the
            check has no such figure.
        detectable: total variation that would have been caught, 0 for exact checks; None where
            that has no meaning.
    """

    status: Status
    detail: str
    off: float | None = None
    detectable: float | None = None


Work = Callable[[], Finding]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One check of one sampler.

    Attributes:
        sampler: its name.
        check: ``law``, ``edge`` or ``mutant``.
        case: the table or the defect.
        status, detail, off, detectable: see ``Finding``.
    """

    sampler: str
    check: str
    case: str
    status: Status
    detail: str
    off: float | None = None
    detectable: float | None = None


def guarded(sampler: str, check: str, case: str, work: Work) -> Outcome:
    """The outcome of one piece of work; whatever it raises is a failure."""
    try:
        found = work()
    except Exception as error:  # foreign code may raise anything, and the other checks go on
        found = Finding(Status.FAILED, raised(error))
    return Outcome(sampler, check, case, found.status, found.detail, found.off, found.detectable)


def raised(error: Exception) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"


def off_itself() -> Finding:
    """A planted defect in a sampler that did not pass without it."""
    return Finding(Status.NOT_APPLICABLE, "the sampler itself did not pass, which hides defects")

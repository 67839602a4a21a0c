"""Exceptions that carry an exit code and the next step for the person at the terminal."""

from __future__ import annotations


class SpecbenchError(Exception):
    """Something the user can act on.

    Args:
        message: what is wrong with which value, and where it came from.
        hint: what to type or change next; empty where there is nothing to add.
    """

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class UsageError(SpecbenchError):
    """Wrong usage or an invalid file."""

    exit_code = 2


class PrerequisiteError(SpecbenchError):
    """A package, device, server, model or file is missing, or a model cannot run here."""

    exit_code = 3


class GateFailed(SpecbenchError):
    """A gate failed: worse than its baseline, or fidelity broken."""

    exit_code = 4


class Inconclusive(SpecbenchError):
    """The data at hand cannot decide."""

    exit_code = 5


class NotComparable(SpecbenchError):
    """Runs or arms whose identity keys differ."""

    exit_code = 6

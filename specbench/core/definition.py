"""What a metric means, with the version of that meaning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Definition:
    """Meaning, unit and definition version of one metric.

    A definition changes only together with its version, so that a number from an older file is
    never printed under a newer meaning.
    """

    name: str
    text: str
    unit: str
    version: int = 1

    @property
    def label(self) -> str:
        """Name and version, as table rows give it."""
        return f"{self.name}@{self.version}"

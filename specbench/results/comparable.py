"""Whether runs may stand in one table: all that decides what was measured must be equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from specbench.core.manifest import UNKNOWN, Manifest
from specbench.errors import NotComparable
from specbench.results.resume import differences


def require_comparable(manifests: Sequence[Manifest]) -> None:
    """Refuse runs whose identities differ; what is unknown equals nothing.

    Raises:
        NotComparable: names every key that differs, with both values.
    """
    first, *others = manifests
    for other in others:
        found = [
            f"{key}: {one} != {two}"
            for key, one, two in differences(asdict(first.identity), asdict(other.identity))
        ]
        found += [f"{key}: unknown" for key in _unknown(first) if key in _unknown(other)]
        if found:
            raise NotComparable(
                f"runs {first.run} and {other.run} did not measure the same: {'; '.join(found)}",
                "run one experiment on each engine: specbench run EXPERIMENT --engine NAME",
            )


def _unknown(manifest: Manifest) -> list[str]:
    return [key for key, value in asdict(manifest.identity).items() if value == UNKNOWN]

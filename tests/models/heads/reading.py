"""Reads a fixture's folder as a head for the fixtures' target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from specbench.models.heads.configs import FAMILIES, HeadCheckpoint, TargetShape
from specbench.models.heads.read import read_head
from specbench.models.locate import Location
from tests.models.heads.fixtures import TARGET


def read(
    folder: Path, *families: str, target: TargetShape = TARGET, dtype: str = "float32"
) -> HeadCheckpoint:
    """The head in a folder, of any family unless some are named."""
    location = Location("folder", str(folder), None, folder, f"folder {folder}")
    return read_head(location, families=families or FAMILIES, target=target, dtype=dtype, arm="a")


def other_target(**changes: Any) -> TargetShape:
    """The fixtures' target with other sizes."""
    return replace(TARGET, **changes)

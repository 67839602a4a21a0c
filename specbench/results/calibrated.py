"""What was timed before a run, as its manifest holds it."""

from __future__ import annotations

from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from specbench.core.manifest import Manifest
from specbench.results.schema import ResultError

Found = TypeVar("Found")


def calibrated(manifest: Manifest, name: str, kind: TypeAdapter[Found]) -> Found | None:
    """An entry of ``calibration``; None for runs from before there was one.

    Raises:
        ResultError: the manifest holds something else in that place.
    """
    document = manifest.calibration.get(name)
    if document is None:
        return None
    try:
        return kind.validate_python(document)
    except ValidationError as error:
        item = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in ("calibration", name, *item["loc"]))
        raise ResultError(
            f"manifest of run {manifest.run}: {key} = {item['input']!r}: {item['msg']}",
            "restore manifest.json",
        ) from error

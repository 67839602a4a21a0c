"""Continues a run: drops a torn last line, keeps what is settled, refuses changed settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from specbench.core.manifest import Manifest, canonical
from specbench.errors import UsageError
from specbench.results.read import Recorded, read_run
from specbench.results.schema import manifest_document
from specbench.results.store import RunFolder


def reopen(folder: RunFolder) -> Recorded:
    """Read a run that is to be continued, and cut off an unfinished last line."""
    recorded = read_run(folder)
    if recorded.torn:
        with folder.traces.open("r+b") as file:
            file.truncate(recorded.complete_bytes)
            file.flush()
            os.fsync(file.fileno())
    return recorded


def refuse_changes(
    old: Mapping[str, object], new: Mapping[str, object], run: str, what: str
) -> None:
    """Refuse to continue a run under other settings.

    Raises:
        UsageError: names every key that differs, with both values.
    """
    changed = list(differences(old, new))
    if changed:
        lines = "; ".join(f"{key}: {before} -> {after}" for key, before, after in changed)
        raise UsageError(
            f"run {run} cannot be resumed: {what} changed: {lines}",
            "use the same settings, or start a new run without --resume",
        )


def refuse_other_identity(old: Manifest, new: Manifest) -> None:
    """Refuse to continue with another model, suite or engine than the run began with."""
    before, after = manifest_document(old), manifest_document(new)
    for part in ("identity", "arms", "suites"):
        refuse_changes({part: before[part]}, {part: after[part]}, old.run, "what is measured")
    refuse_changes(_software(old), _software(new), old.run, "what measures")


def _software(manifest: Manifest) -> dict[str, object]:
    return {
        "drafts": manifest.engine.get("drafts"),
        "libraries": manifest.environment.get("libraries"),
        "servers": {
            arm: facts.get("version")
            for arm, facts in _mapping(manifest.engine.get("servers")).items()
            if isinstance(facts, Mapping)
        },
    }


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def differences(old: object, new: object, place: str = "") -> Iterator[tuple[str, str, str]]:
    """Dotted keys whose values differ, with both values as JSON ("(none)" where absent)."""
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            inner = f"{place}.{key}" if place else str(key)
            yield from differences(old.get(key), new.get(key), inner)
    elif canonical(old) != canonical(new):
        yield place, _shown(old), _shown(new)


def _shown(value: object) -> str:
    return "(none)" if value is None else canonical(value)

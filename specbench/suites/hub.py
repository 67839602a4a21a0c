"""Makes an ordinary suite folder of a public set: checked, with digest, licence and origin."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import tomli_w

from specbench.core.cache import is_offline
from specbench.errors import PrerequisiteError, UsageError
from specbench.suites.definition import (
    Definition,
    definition,
    fetched_folder,
    public_names,
)
from specbench.suites.findings import RowError
from specbench.suites.lines import canonical_bytes
from specbench.suites.mapping import mapped_row
from specbench.suites.schema import read_row
from specbench.suites.source import Rows, from_files, from_hub

SHOWN = 5
"""Reasons of bad rows that one message lists; the rest is counted."""


@dataclass(frozen=True, slots=True)
class PublicSet:
    """A public set as lists show it."""

    name: str
    title: str
    licence: str
    source: str
    fetched: bool


@dataclass(frozen=True, slots=True)
class Fetched:
    """A suite that was made: where it is, how many prompts it has, and what was left out."""

    folder: Path
    prompts: int
    licence: str
    skipped: tuple[str, ...]


def public_sets() -> list[PublicSet]:
    """All public sets with a definition, by name."""
    return [
        PublicSet(
            name=found.name,
            title=found.title,
            licence=found.license,
            source=str(found.source),
            fetched=(fetched_folder(found.name) / "suite.toml").is_file(),
        )
        for found in map(definition, public_names())
    ]


def fetch(
    name: str,
    *,
    paths: Sequence[Path] = (),
    revision: str | None = None,
    limit: int | None = None,
    offline: bool | None = None,
) -> Fetched:
    """Make the suite of a public set; one that is already there is made anew.

    Args:
        name: of a definition.
        paths: local copies (.jsonl, .json, .parquet, .csv, .tsv); none = from the hub.
        revision: branch, tag or commit on the hub; None = the definition's.
        limit: at most this many prompts, in the order of the set; None = the definition's.
        offline: refuse to open a socket; None reads HF_HUB_OFFLINE.

    Raises:
        UsageError: unknown name, files that cannot be read, or too many bad rows.
        PrerequisiteError: the network, a package or the set is not to be had.
    """
    found = definition(name)
    if paths and revision is not None:
        raise UsageError("--revision applies to the hub, not to files", "leave one of them out")
    if paths:
        rows = from_files(found, paths)
    elif is_offline(offline):
        raise PrerequisiteError(
            f"{name} is at {found.source}, and this is offline",
            f"get a copy and type: specbench suites fetch {name} --file FILE",
        )
    else:
        rows = from_hub(found, revision)
    made, skipped = _mapped(found, rows, limit or found.limit)
    return Fetched(_write(found, rows, made, skipped), len(made), found.license, skipped)


def _mapped(
    found: Definition, rows: Rows, limit: int | None
) -> tuple[list[dict[str, object]], tuple[str, ...]]:
    made: list[dict[str, object]] = []
    skipped: list[str] = []
    seen: set[str] = set()
    for ordinal, row in enumerate(rows.rows, start=1):
        if limit is not None and len(made) == limit:
            break
        try:
            new = mapped_row(found, row, ordinal)
            prompt = read_row(new, found.name, None)
            canonical_bytes(new)
            if prompt.id in seen:
                raise RowError(f"id: {prompt.id!r} twice")
        except RowError as error:
            skipped.append(f"row {ordinal}: {error}")
            continue
        seen.add(prompt.id)
        made.append(new)
    total = len(made) + len(skipped)
    if not made or len(skipped) > found.bad_rows * total:
        more = f"\n  and {len(skipped) - SHOWN} more" if len(skipped) > SHOWN else ""
        raise UsageError(
            f"{found.name}: {len(skipped)} of {total} rows cannot be used",
            "\n  ".join(skipped[:SHOWN] or ["there are no rows"]) + more,
        )
    return made, tuple(skipped)


def _write(
    found: Definition, rows: Rows, made: Sequence[dict[str, object]], skipped: Sequence[str]
) -> Path:
    lines = [canonical_bytes(row) for row in made]
    head = {
        "schema_version": 1,
        "name": found.name,
        "version": rows.version,
        "title": found.title,
        "license": found.license,
        "digest": f"sha256:{sha256(b''.join(lines)).hexdigest()}",
        "defaults": {"max_new_tokens": found.max_new_tokens},
        "categories": {str(row["category"]): "" for row in made},
    }
    origin = {"origin": rows.origin, "rows": len(made), "skipped": list(skipped)}
    folder = fetched_folder(found.name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new.", dir=folder.parent) as temporary:
        new = Path(temporary) / found.name
        new.mkdir()
        (new / "suite.toml").write_text(tomli_w.dumps(head), encoding="utf-8")
        (new / "prompts.jsonl").write_bytes(b"".join(lines))
        (new / "origin.json").write_text(
            json.dumps(origin, indent=2, ensure_ascii=False), encoding="utf-8"
        )
        if folder.exists():
            shutil.rmtree(folder)
        new.rename(folder)
    return folder

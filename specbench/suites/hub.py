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
from specbench.core.suite import Prompt
from specbench.errors import PrerequisiteError, UsageError
from specbench.suites.definition import (
    Definition,
    definition,
    fetched_folder,
    public_names,
)
from specbench.suites.findings import RowError
from specbench.suites.lines import canonical_bytes, lines
from specbench.suites.mapping import mapped_row
from specbench.suites.other_set import Bad, refuse_other_set
from specbench.suites.schema import read_row
from specbench.suites.source import Rows, from_files, from_network
from specbench.suites.spread import spread

Made = tuple[dict[str, object], Prompt]

SHOWN = 5
"""Reasons of bad rows that one message lists; the rest is counted."""


@dataclass(frozen=True, slots=True)
class PublicSet:
    """A public set as lists show it; ``prompts`` of its suite here, None where there is none."""

    name: str
    title: str
    licence: str
    source: str
    prompts: int | None

    @property
    def fetched(self) -> bool:
        return self.prompts is not None


@dataclass(frozen=True, slots=True)
class Fetched:
    """A suite that was made: where it is, how many prompts it has, and what was left out.

    ``replaced`` is the number of prompts of the suite that was there before, None without one.
    """

    folder: Path
    prompts: int
    licence: str
    skipped: tuple[str, ...]
    replaced: int | None = None


def public_sets() -> list[PublicSet]:
    """All public sets with a definition, by name."""
    return [
        PublicSet(
            name=found.name,
            title=found.title,
            licence=found.license,
            source=str(found.source),
            prompts=_prompts_here(found.name),
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
        limit: at most this many prompts, spread over the categories as ``loader.select`` does;
            None = all. A definition's own limit is how many of the first rows make the set.
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
        rows = from_network(found, revision)
    first = found.limit and max(found.limit, limit or 0)
    made, skipped = _mapped(found, rows, first)
    chosen = _chosen(found, made, limit)
    replaced = _prompts_here(name)
    folder = _write(found, rows, chosen, len(made), skipped)
    return Fetched(folder, len(chosen), found.license, skipped, replaced)


def _prompts_here(name: str) -> int | None:
    folder = fetched_folder(name)
    if not (folder / "suite.toml").is_file() or not (folder / "prompts.jsonl").is_file():
        return None
    return sum(1 for _ in lines((folder / "prompts.jsonl").read_bytes()))


def _mapped(found: Definition, rows: Rows, first: int | None) -> tuple[list[Made], tuple[str, ...]]:
    made: list[Made] = []
    bad: list[Bad] = []
    seen: set[str] = set()
    for ordinal, row in enumerate(rows.rows, start=1):
        if first is not None and len(made) == first:
            break
        try:
            new = mapped_row(found, row, ordinal)
            prompt = read_row(new, found.name, None)
            canonical_bytes(new)
            if prompt.id in seen:
                raise RowError(f"id: {prompt.id!r} twice")
        except RowError as error:
            bad.append(Bad(ordinal, row, error))
            continue
        seen.add(prompt.id)
        made.append((new, prompt))
    total = len(made) + len(bad)
    skipped = tuple(map(str, bad))
    if not made or len(bad) > found.bad_rows * total:
        if not made:
            refuse_other_set(found, bad)
        more = f"\n  and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        raise UsageError(
            f"{found.name}: {len(bad)} of {total} rows cannot be used",
            "\n  ".join(skipped[:SHOWN] or ["there are no rows"]) + more,
        )
    return made, skipped


def _chosen(found: Definition, made: Sequence[Made], limit: int | None) -> list[dict[str, object]]:
    if limit is None:
        return [row for row, _ in made]
    categories = list(dict.fromkeys(prompt.category for _, prompt in made))
    order = spread([prompt for _, prompt in made], categories, found.name)
    kept = {prompt.id for prompt in order[:limit]}
    return [row for row, prompt in made if prompt.id in kept]


def _write(
    found: Definition,
    rows: Rows,
    chosen: Sequence[dict[str, object]],
    of: int,
    skipped: Sequence[str],
) -> Path:
    data = b"".join(canonical_bytes(row) for row in chosen)
    head = {
        "schema_version": 1,
        "name": found.name,
        "version": rows.version,
        "title": found.title,
        "license": found.license,
        "digest": f"sha256:{sha256(data).hexdigest()}",
        "defaults": {"max_new_tokens": found.max_new_tokens},
        "categories": {str(row["category"]): "" for row in chosen},
    }
    origin = {"origin": rows.origin, "rows": len(chosen), "of": of, "skipped": list(skipped)}
    folder = fetched_folder(found.name)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new.", dir=folder.parent) as temporary:
        new = Path(temporary) / found.name
        new.mkdir()
        (new / "suite.toml").write_text(tomli_w.dumps(head), encoding="utf-8")
        (new / "prompts.jsonl").write_bytes(data)
        (new / "origin.json").write_text(
            json.dumps(origin, indent=2, ensure_ascii=False), encoding="utf-8"
        )
        if folder.exists():
            shutil.rmtree(folder)
        new.rename(folder)
    return folder

"""Rows of a public set: from the hub through ``datasets``, an address, or files on this disk."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError, UsageError
from specbench.suites.definition import Definition
from specbench.suites.download import DownloadFailed, download
from specbench.suites.findings import RowError
from specbench.suites.lines import decode, lines

Row = Mapping[str, object]
TABLES = {".parquet": "parquet", ".csv": "csv", ".tsv": "csv"}
_COMMIT = re.compile(r"@([0-9a-f]{40})/")


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a set with where they came from, for records.

    Attributes:
        rows: in the order of the set.
        version: ``hub-<commit>`` (or the revision, where no commit is known) or
            ``file-<SHA-256>``, cut to 12 digits.
        origin: hub id, configuration, split and revision; or file names and their SHA-256.
    """

    rows: Iterable[Row]
    version: str
    origin: Mapping[str, object]


def from_files(found: Definition, paths: Sequence[Path]) -> Rows:
    """Rows of local copies: one file, or two where the set joins two configurations.

    JSON is read by itself and not as a table: a table would give every row the fields of all.

    Raises:
        UsageError: another number of files, a missing file, an unknown form, or no rows in it.
        PrerequisiteError: a table, and ``datasets`` is not installed.
    """
    needed = 2 if found.source.join else 1
    if len(paths) != needed:
        raise UsageError(
            f"{found.name} is made of {needed} file(s), got {len(paths)}",
            "write --file once per file" if needed > 1 else "write --file once",
        )
    tables = [_read(path) for path in paths]
    digests = [sha256(path.read_bytes()).hexdigest() for path in paths]
    origin = {
        "files": [
            {"name": path.name, "sha256": digest}
            for path, digest in zip(paths, digests, strict=True)
        ]
    }
    return Rows(_joined(found, tables), f"file-{digests[0][:12]}", origin)


def from_network(found: Definition, revision: str | None = None) -> Rows:
    """Rows from where the definition says: one file at an address, or a dataset of the hub.

    Raises:
        UsageError: a revision of a plain address, or a file without rows.
        PrerequisiteError: ``datasets`` or a package of its is not installed, or the set cannot be
            had.
    """
    if found.source.url is None:
        return _from_hub(found, revision or found.source.revision)
    if revision is not None:
        raise UsageError(
            f"--revision applies to the hub, and {found.name} is the file {found.source.url}",
            "leave it out",
        )
    return _from_url(found, found.source.url)


def _from_url(found: Definition, url: str) -> Rows:
    try:
        data = download(url)
    except DownloadFailed as error:
        raise PrerequisiteError(
            f"cannot fetch {url}: {error}",
            "check the network (HTTPS_PROXY), "
            f"or get a copy and type: specbench suites fetch {found.name} --file FILE",
        ) from None
    digest = sha256(data).hexdigest()
    rows = list(_json_rows(url, data))
    return Rows(rows, f"file-{digest[:12]}", {"url": url, "sha256": digest})


def _from_hub(found: Definition, wanted: str) -> Rows:
    source, datasets = found.source, _datasets()
    configs = [source.config] + ([source.join.config] if source.join else [])
    try:
        loaded = [
            datasets.load_dataset(
                source.hub,
                config,
                split=source.split,
                revision=wanted,
                data_files=source.data_files,
            )
            for config in configs
        ]
    except ImportError as error:
        raise _package_missing(error) from None
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        raise PrerequisiteError(
            f"cannot fetch {source}: {_first_line(error)}",
            "check the network, the access rights (HF_TOKEN) and the terms of the set; "
            f"or get a copy and type: specbench suites fetch {found.name} --file FILE",
        ) from None
    commit = _COMMIT.search(" ".join(loaded[0].info.download_checksums or {}))
    version = f"hub-{commit[1][:12] if commit else wanted}"
    origin = {
        "hub": source.hub,
        "configs": configs,
        "split": source.split,
        "revision": commit[1] if commit else wanted,
    }
    return Rows(_joined(found, loaded), version, origin)


def _joined(found: Definition, tables: Sequence[Iterable[Row]]) -> Iterable[Row]:
    """The first table's rows; with a join, each with its partner of the second as ``joined``."""
    if found.source.join is None:
        return tables[0]
    on = found.source.join.on
    partners = {row.get(on): row for row in tables[1]}
    return [{**row, "joined": partners.get(row.get(on))} for row in tables[0]]


def _read(path: Path) -> list[Row]:
    if not path.is_file():
        raise UsageError(f"no file {path}", "check the path")
    if path.suffix in (".jsonl", ".json"):
        return list(_json_rows(str(path), path.read_bytes()))
    if path.suffix not in TABLES:
        known = ", ".join([".jsonl", ".json", *TABLES])
        raise UsageError(f"{path}: no form that can be read", f"known: {known}")
    options = {"delimiter": "\t"} if path.suffix == ".tsv" else {}
    datasets = _datasets()
    # Its cache would keep a copy of every file ever named, under the name of its form.
    with tempfile.TemporaryDirectory(prefix="specbench.") as cache:
        try:
            table = datasets.load_dataset(
                TABLES[path.suffix],
                data_files=str(path),
                split="train",
                cache_dir=cache,
                keep_in_memory=True,
                **options,
            )
        except ImportError as error:
            raise _package_missing(error) from None
        except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
            raise UsageError(f"{path}: {_first_line(error.__cause__ or error)}") from None
        return [dict(row) for row in table]


def _json_rows(name: str, data: bytes) -> Iterator[Row]:
    """Rows of JSON lines, or of one JSON list."""
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        try:
            rows = json.loads(data.decode("utf-8-sig"))
        except ValueError as error:
            raise UsageError(f"{name}: not JSON: {error}") from error
        yield from (row if isinstance(row, dict) else {} for row in rows)
        return
    for number, offset, raw in lines(data):
        try:
            yield decode(raw, offset)
        except RowError as error:
            raise UsageError(f"{name}, line {number}: {error}") from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _datasets() -> Any:
    try:
        return import_module("datasets")
    except ImportError as error:
        raise _package_missing(error) from None


def _package_missing(error: ImportError) -> PrerequisiteError:
    return PrerequisiteError(
        f"reading this set needs the package datasets and what it uses: {_first_line(error)}",
        "type: pip install --upgrade 'specbench-llm[data]', or give a copy as .jsonl with --file",
    )

"""Suites from disk: by name, from a folder with suite.toml, or from a bare .jsonl file."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from specbench.catalog import SUITES, entry, names, nearest
from specbench.core.suite import Prompt, Suite
from specbench.errors import PrerequisiteError, UsageError
from specbench.suites.bare import canonical_row
from specbench.suites.definition import data_roots, public_names, require_fetched
from specbench.suites.findings import RowError
from specbench.suites.lines import BOM, canonical_bytes, decode, lines, utf8
from specbench.suites.schema import SuiteFile, read_row, read_suite_file
from specbench.suites.spread import spread

BARE_MAX_NEW_TOKENS = 256
"""Length limit for bare files, which declare none."""

SHOWN = 10
"""Bad rows that one message lists; the rest is counted."""

Read = Callable[[dict[str, object], int], Prompt]


def load_suite(path_or_name: str | Path, *, strict: bool = True, max_bad: int = 0) -> Suite:
    """Load and check a suite.

    Args:
        path_or_name: a name of the catalogue or of a public set, a folder with suite.toml, or a
            .jsonl file. A name wins over a folder of the same name; write ``./name`` for the
            folder.
        strict: fail on the first bad row. Named suites are always strict.
        max_bad: when not strict, how many bad rows may be skipped; their reasons are in
            ``Suite.skipped``.

    Raises:
        UsageError: unknown name, no such file, or a wrong file, with place, value and remedy.
        PrerequisiteError: a catalogued suite that is not part of this installation, or a public
            set that was not fetched.
    """
    text = str(path_or_name)
    if isinstance(path_or_name, str) and text in known_names():
        return _load_folder(locate(text), _Rows(strict=True))
    rows, path = _Rows(strict, max_bad), Path(path_or_name)
    if path.is_dir():
        return _load_folder(path, rows)
    is_file = path.suffix == ".jsonl"
    if is_file and path.is_file():
        return _load_bare(path, rows)
    if not path.exists() and (is_file or text != path.name):
        what = "file" if is_file else "folder"
        raise UsageError(f"no suite {text!r}: this {what} does not exist", "check the path")
    known = nearest(text, known_names())
    raise UsageError(
        f"no suite {text!r}: not a name, not a folder with suite.toml, not a .jsonl file", known
    )


def known_names() -> list[str]:
    """Names that ``load_suite`` takes: of the catalogue, then of public sets."""
    catalogued = names("suites")
    return catalogued + [name for name in public_names() if name not in catalogued]


def locate(name: str) -> Path:
    """The folder of a suite with a name.

    Our own are package data, or ``suites/`` of a source checkout. An entry point names
    ``package:folder`` below that package. Public sets lie in the cache.

    Raises:
        UsageError: unknown name, or a folder outside its root.
        PrerequisiteError: the suite is not installed, or not fetched.
    """
    if name not in names("suites") and name in public_names():
        return require_fetched(name)
    value = entry("suites", name)
    if name in SUITES:
        roots = data_roots()
    else:
        module, _, value = value.partition(":")
        roots = [Path(str(files(module)))]
    for root in roots:
        folder = _inside(root, value)
        if (folder / "suite.toml").is_file():
            return folder
    raise PrerequisiteError(
        f"suite {name!r} is not installed: no {value}/suite.toml in "
        + " or ".join(str(root) for root in roots),
        "install specbench again, or give the path of a suite folder",
    )


def select(
    suite: Suite,
    *,
    split: str | None = None,
    limit: int | None = None,
    categories: Sequence[str] | None = None,
    seed: int = 0,
) -> tuple[Prompt, ...]:
    """Choose prompts, spread over the categories: one of each in turn.

    Inside a category the order is a hash of seed, suite and id. The choice for a smaller limit is
    the beginning of the choice for a larger one, so that a longer run extends a shorter one.

    Args:
        split: ``dev``, ``test``, or None (or ``all``) for both.
        limit: at most this many; None = all.
        categories: only these; None = all.

    Raises:
        UsageError: unknown split or category, a limit below 1, or nothing left.
    """
    if split not in (None, "all", "dev", "test"):
        raise UsageError(f"unknown split {split!r}", nearest(str(split), ["dev", "test", "all"]))
    if limit is not None and limit < 1:
        raise UsageError(f"limit is {limit}", "write a limit of at least 1, or none for all")
    for category in categories or ():
        if category not in suite.categories:
            known = nearest(category, list(suite.categories))
            raise UsageError(f"suite {suite.name!r} has no category {category!r}", known)
    inside = [p for p in suite.prompts if split in (None, "all", p.split)]
    wanted = [c for c in suite.categories if categories is None or c in categories]
    order = spread(inside, wanted, suite.name, seed)
    if not order:
        raise UsageError(
            f"no prompt of suite {suite.name!r} is in split {split} and categories {categories}",
            "choose another split, or more categories",
        )
    return tuple(order[:limit])


@dataclass(slots=True)
class _Rows:
    """Reads the rows of one file; keeps good ones, the digest, and the reasons of bad ones."""

    strict: bool
    max_bad: int = 0
    prompts: list[Prompt] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    digest: str = ""

    def read(self, path: Path, read: Read) -> None:
        digest = sha256()
        seen: dict[str, int] = {}
        for ordinal, (line, offset, raw) in enumerate(lines(path.read_bytes()), start=1):
            try:
                row = decode(raw, offset)
                canonical = canonical_bytes(row)
                prompt = read(row, ordinal)
                if prompt.id in seen:
                    raise RowError(
                        f"id: {prompt.id!r} is also on line {seen[prompt.id]}; write another id"
                    )
            except RowError as error:
                self._bad(f"{path}, line {line}: {error}", error)
                continue
            seen[prompt.id] = line
            digest.update(canonical)
            self.prompts.append(prompt)
        self.digest = f"sha256:{digest.hexdigest()}"
        self._judge(path)

    def _bad(self, reason: str, error: RowError) -> None:
        if self.strict:
            raise UsageError(reason) from error
        self.skipped.append(reason)

    def _judge(self, path: Path) -> None:
        bad = len(self.skipped)
        if bad > self.max_bad:
            more = f"\n  and {bad - SHOWN} more" if bad > SHOWN else ""
            raise UsageError(
                f"{path}: {bad} bad rows, allowed are {self.max_bad}",
                "\n  ".join(self.skipped[:SHOWN]) + more,
            )
        if not self.prompts:
            raise UsageError(f"{path}: holds no prompts", "write one JSON object per line")


def _load_folder(folder: Path, rows: _Rows) -> Suite:
    toml = _inside(folder, "suite.toml")
    prompts = _inside(folder, "prompts.jsonl")
    for path in (toml, prompts):
        if not path.is_file():
            raise UsageError(f"no file {path}", "a suite holds suite.toml and prompts.jsonl")
    head = _read_head(toml)

    def read(row: dict[str, object], ordinal: int) -> Prompt:
        return read_row(row, head.name, head.categories)

    rows.read(prompts, read)
    # With rows left out the declared digest cannot hold; Suite.digest then names what was read.
    if not rows.skipped and rows.digest != head.digest:
        raise UsageError(
            f"{toml}: digest: {head.digest!r} is not that of {prompts.name}: the prompts changed",
            f'restore them, or write digest = "{rows.digest}" and a new version',
        )
    return Suite(
        name=head.name,
        version=head.version,
        title=head.title,
        licence=head.license,
        digest=rows.digest,
        max_new_tokens=head.defaults.max_new_tokens,
        categories=head.categories,
        prompts=tuple(rows.prompts),
        skipped=tuple(rows.skipped),
    )


def _read_head(path: Path) -> SuiteFile:
    data = path.read_bytes()
    for line, offset, raw in lines(data):
        try:
            utf8(raw, offset)
        except RowError as error:
            raise UsageError(f"{path}, line {line}: {error}") from error
    try:
        return read_suite_file(tomllib.loads(data.removeprefix(BOM).decode("utf-8")))
    except (tomllib.TOMLDecodeError, RowError) as error:
        raise UsageError(f"{path}: {error}") from error


def _load_bare(path: Path, rows: _Rows) -> Suite:
    name = path.stem

    def read(row: dict[str, object], ordinal: int) -> Prompt:
        return read_row(canonical_row(row, ordinal), name, None)

    rows.read(path, read)
    return Suite(
        name=name,
        version="local",
        title=path.name,
        licence="unknown",
        digest=rows.digest,
        max_new_tokens=BARE_MAX_NEW_TOKENS,
        categories={prompt.category: "" for prompt in rows.prompts},
        prompts=tuple(rows.prompts),
        skipped=tuple(rows.skipped),
    )


def _inside(root: Path, relative: str) -> Path:
    # Symbolic links count: a suite must be the same on every machine that has its folder.
    path = (root / relative).resolve()
    if not path.is_relative_to(root.resolve()):
        raise UsageError(f"{relative!r} leaves {root}", "keep the files of a suite in its folder")
    return path

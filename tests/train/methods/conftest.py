"""A tiny target with files and a tokenizer, as a training loads it."""

from __future__ import annotations

import pytest

from specbench.models.load import load_model
from specbench.models.locate import locate
from tests.models.heads.tiny_heads import tiny_model
from tests.models.tiny import write_tokenizer

LAYERS = 4


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache per test."""
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def target_of(tmp_path):
    """Makes a loaded target; keywords change its configuration."""

    def build(family="llama", **changes):
        folder = tmp_path / f"{family}-target"
        tiny_model(family, num_hidden_layers=LAYERS, **changes).save_pretrained(folder)
        write_tokenizer(folder)
        return load_model(locate(str(folder)), dtype="float32")

    return build


@pytest.fixture
def target(target_of):
    """A Llama of four layers, its output projection its own."""
    return target_of()

"""The tokenizer of the fake server's table model."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def words(tmp_path_factory):
    """A folder with nothing but that tokenizer."""
    from tests.engines.fake_server.checkpoint import write_tokenizer

    folder = tmp_path_factory.mktemp("words")
    write_tokenizer(folder)
    return str(folder)

"""The tiny target of the engine tests as a GGUF file."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def tiny_gguf_file(tiny_target):
    """Skips where llama.cpp is not installed."""
    pytest.importorskip("xllamacpp")
    from specbench.models.gguf_write import export
    from specbench.models.locate import locate

    return export(locate(str(tiny_target)), tiny_target.parent / "tiny.gguf")

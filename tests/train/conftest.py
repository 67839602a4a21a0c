"""A cache of its own for every module of these tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    """Nothing of what tests load is remembered elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("SPECBENCH_CACHE", str(folder))
        patch.setenv("HF_HUB_CACHE", str(folder / "hub"))
        yield folder

"""A cache of its own for every module of these tests."""

from __future__ import annotations

import pytest

from specbench.core.cache import cache_folder


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    """Nothing of what tests load is remembered elsewhere; models that were fetched are there."""
    with pytest.MonkeyPatch.context() as patch:
        folder, fetched = tmp_path_factory.mktemp("cache"), cache_folder() / "models"
        if fetched.is_dir():
            (folder / "models").symlink_to(fetched)
        patch.setenv("SPECBENCH_CACHE", str(folder))
        patch.setenv("HF_HUB_CACHE", str(folder / "hub"))
        yield folder

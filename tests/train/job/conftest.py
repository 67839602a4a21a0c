"""One spelling target per module."""

from __future__ import annotations

import pytest

from tests.train.job.trained import Bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory, own_cache):
    return Bench.build(tmp_path_factory.mktemp("bench"))

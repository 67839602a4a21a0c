"""Cores and memory under control groups made up here."""

from __future__ import annotations

import psutil
import pytest

from specbench.models.host import free_memory, usable_cores, usable_memory


@pytest.mark.parametrize(
    ("quota", "cores"), [("50000 100000", 0.5), ("max 100000", None), ("", None)]
)
def test_cores_obey_the_control_group(tmp_path, quota, cores):
    (tmp_path / "cpu.max").write_text(quota)
    assert usable_cores(tmp_path) == (cores or usable_cores(tmp_path / "absent"))


@pytest.mark.parametrize(("limit", "expected"), [("1048576\n", 2**20), ("max\n", None)])
def test_memory_obeys_the_control_group(tmp_path, limit, expected):
    (tmp_path / "memory.max").write_text(limit)
    assert usable_memory(tmp_path) == (expected or psutil.virtual_memory().total)


def test_no_more_is_free_than_may_be_used(tmp_path):
    (tmp_path / "memory.max").write_text("1048576")
    assert free_memory(tmp_path) == 2**20

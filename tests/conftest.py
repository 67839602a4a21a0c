"""Skips tests that need what is not here, with the reason, and begins long files first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from specbench.errors import PrerequisiteError
from specbench.models.locate import DEMO_MODEL, locate


def no_model() -> str:
    """Why the demo model cannot be loaded; empty if it can."""
    try:
        locate(DEMO_MODEL, offline=True)
    except PrerequisiteError as error:
        # scripts/check tried to fetch it and knows what went wrong there
        return os.environ.get("SPECBENCH_NO_MODEL") or error.message
    return ""


def no_gpu() -> str:
    """Why no CUDA device can be used; empty if one can."""
    import torch

    return "" if torch.cuda.is_available() else "no CUDA device"


REASONS = {"model": no_model, "gpu": no_gpu}


LONGEST = (
    "engines/test_real_model.py",
    "laws/test_catalogue.py",
    "cli/test_llamacpp.py",
    "engines/test_native_graphs.py",
    "engines/test_native_parallel.py",
    "engines/transformers_assisted/test_real_model.py",
    "models/parallel/test_shared_forwards.py",
    "engines/servers/test_llamacpp_agreement.py",
    "engines/test_native_schedule.py",
    "laws/test_documented_adapters.py",
    "models/test_compiled.py",
    "gpu_check/test_gpu_check.py",
    "train/job/test_every_method.py",
    "train/job/test_together.py",
    "experiment/test_replay.py",
    "cli/test_replay.py",
)
"""Files that take longest, the longest first. A process runs a file as a whole (scripts/check), so
that the test run is as long as whatever begins last.
"""
TESTS = Path(__file__).parent


def begins(item):
    """Place of a test's file among those that begin first; all others behind them."""
    name = item.path.relative_to(TESTS).as_posix()
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


def pytest_collection_modifyitems(items):
    items.sort(key=begins)
    for marker, why in REASONS.items():
        marked = [item for item in items if item.get_closest_marker(marker)]
        reason = why() if marked else ""
        for item in marked if reason else ():
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="module")
def one_thread():
    """One torch thread: for tiny models, starting more costs more than their matrices."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)

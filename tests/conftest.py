"""Skips tests whose marker asks for something that is not here, with the reason."""

from __future__ import annotations

import os

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


def pytest_collection_modifyitems(items):
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

"""Tiny models are fastest on one thread."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Starting threads costs more than these matrices."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)

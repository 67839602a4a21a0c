from __future__ import annotations

import subprocess
import sys

import pytest

from specbench.quality.sandbox import open_sandbox

NEW_NETWORK_AND_MOUNTS = """
import ctypes, os
library = ctypes.CDLL(None)
users = 0 if os.geteuid() == 0 else 0x10000000
assert library.unshare(0x40020000 | users) == 0
assert library.mount(None, b"/", None, 0x44000, None) == 0
"""


@pytest.fixture(scope="session")
def sandbox():
    """A sandbox with the default limits; skips where the system makes no namespaces.

    That is tried apart from the sandbox: walls with a hole must fail these tests, not skip them.
    """
    if sys.platform != "linux":
        pytest.skip("the sandbox is made for Linux")
    command = [sys.executable, "-c", NEW_NETWORK_AND_MOUNTS]
    if subprocess.run(command, stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("this system makes no network and mount namespaces")
    return open_sandbox()

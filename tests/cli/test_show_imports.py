"""What reads results works where torch is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "module", ["show", "compare", "gate", "baseline", "leaderboard", "report", "rescore", "run"]
)
def test_no_torch(module):
    code = f"import sys, specbench.cli.{module}; sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == 0

"""Figures of whole processes: start-up of the command line, and memory."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from typing import Any

from .setting import ROUNDS, say

MIB = 1024**2
COMMAND = (sys.executable, "-c", "from specbench.cli.main import main; main()")
"""What the console script does."""


def command_line() -> dict[str, Any]:
    """Start-up time of the command, and whether ``show`` stays clear of torch."""
    say("command line")
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        subprocess.run([*COMMAND, "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    probe = "import sys, specbench.cli.show; print('torch' in sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", probe], check=True, capture_output=True, text=True
    )
    return {
        "cli_help_s": statistics.median(times),
        "show_imports_torch": loaded.stdout.strip() == "True",
    }


MEMORY_PROBE = f"""
import json
from scripts.benchmark.setting import ARMS, TARGET, decode, requests
from specbench.engines.native import open_engine
engine = open_engine(TARGET, ARMS)
before = engine.memory("plain").peak
for arm in ARMS:
    decode(engine, arm.name, requests(engine, ("code", "chat"), 2, 64, 0.7), 4)
memory = engine.memory("plain")
pool = engine.pool_bytes
print(json.dumps({{
    "after_loading": before / {MIB}, "peak": memory.peak / {MIB},
    "weights": memory.target_weights / {MIB}, "kv_pool": pool / {MIB}}}))
"""


def peak_memory() -> dict[str, float]:
    """Peak resident memory of a process that only runs the native engine, in MiB."""
    say("memory")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_PROBE], check=True, capture_output=True, text=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))

"""Starts processes that share a model, on this machine alone."""

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SECONDS = 240


def environment(rank, size, port):
    """What ``torchrun`` sets for one of its processes."""
    return os.environ | {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def run_group(arguments, size=2):
    """Run ``python arguments`` in every process; (exit code, output, errors) by rank."""
    port = free_port()
    started = [
        subprocess.Popen(
            [sys.executable, *arguments],
            env=environment(rank, size, port),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for rank in range(size)
    ]
    try:
        said = [process.communicate(timeout=SECONDS) for process in started]
    finally:
        for process in started:
            process.kill()
    return [
        (process.returncode, out, errors)
        for process, (out, errors) in zip(started, said, strict=True)
    ]

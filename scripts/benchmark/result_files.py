"""Figures of commands that read result files, each a process as a user starts it."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree
from typing import Any

from specbench.results.gate.baselines import add_again, set_baseline
from specbench.results.read import read_run
from specbench.results.store import RunFolder
from specbench.results.summary import read_summary

from .process import COMMAND
from .setting import say
from .synthetic_runs import write_runs

RESULTS = Path(__file__).resolve().parents[2] / "results"
REFERENCE = "reference"
"""Title of the measured run that made-up ones are like, and whose traces are read."""
RUNS, PROMPTS = 100, 1000
TIMES, TIMES_SLOW = 3, 1
"""How often a command is run, and one that computes for long."""
DECIDED = (0, 4, 5)
"""Exit codes of a command that came to an answer."""
MIB = 1024**2

PROBE = """
import json, os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
print(json.dumps([time.perf_counter() - start, used.ru_maxrss, os.waitstatus_to_exitcode(status)]))
"""
"""Time, peak resident memory and exit code of one command.

Linux counts the memory of the process that starts a command as the command's own peak, so a small
process is put between it and this one, which holds torch.
"""
RSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in which the system gives resident memory."""


def result_files() -> dict[str, Any]:
    """All figures of this file."""
    like = _newest(REFERENCE)
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "runs"
        out.mkdir()
        say(f"made-up runs: {RUNS} of {PROMPTS} prompts")
        made = write_runs(out, like, RUNS, PROMPTS)
        size = sum(RunFolder(path).items.stat().st_size for path in made)
        commands = _many_runs(made, out)
        traces = _traces(like, Path(name) / "copies")
    return {
        "runs": {"runs": RUNS, "prompts": PROMPTS, "arms": 2, "items_csv_mb": size / 1e6},
        **commands,
        "traces": traces,
        "cores": os.cpu_count(),
    }


def _newest(title: str) -> RunFolder:
    found = [RunFolder(path.parent) for path in sorted(RESULTS.glob("*/summary.json"))]
    return [folder for folder in found if read_summary(folder).title == title][-1]


def _many_runs(made: Sequence[Path], out: Path) -> dict[str, dict[str, float]]:
    """Seconds and peak MiB of what reads the made-up runs, and of a help text."""
    first, *others = map(str, made)
    set_baseline("made", made[0].name, out)
    for path in made[1:-1]:
        add_again("made", path.name, out)
    few = ("--metric", "accept_length", "--by", "temperature")
    commands = {
        "compare --help": (("compare", "--help"), TIMES),
        "compare, 2 runs": (("compare", first, others[0]), TIMES),
        f"compare, 1 with {len(others)}, accept length": (
            ("compare", first, *others, *few),
            TIMES,
        ),
        f"compare, 1 with {len(others)}, 5 measures by suite": (
            ("compare", first, *others),
            TIMES_SLOW,
        ),
        "gate, 2 runs": (("gate", others[0], "--base", first), TIMES),
        f"gate, baseline with {len(made) - 2} A/A runs": (
            ("gate", others[-1], "--baseline", "made", "--out", str(out)),
            TIMES,
        ),
        f"leaderboard, {len(made)} runs": (("leaderboard", str(out)), TIMES),
    }
    measured = {name: _measured(words, times) for name, (words, times) in commands.items()}
    return {
        "seconds": {name: seconds for name, (seconds, _) in measured.items()},
        "peak_memory_mb": {name: peak for name, (_, peak) in measured.items()},
    }


def _measured(words: Sequence[str], times: int) -> tuple[float, float]:
    """Median seconds of a command, and its largest peak of resident memory in MiB."""
    say(f"{words[0]}, {len(words)} words")
    called = [sys.executable, "-c", PROBE, *COMMAND, *words]
    seconds, peaks = [], []
    for _ in range(times):
        done = subprocess.run(called, check=True, capture_output=True, text=True)
        taken, peak, code = json.loads(done.stdout)
        if code not in DECIDED:
            raise RuntimeError(f"{' '.join(words[:2])} ended with {code}: {done.stderr[-400:]}")
        seconds.append(taken)
        peaks.append(peak * RSS_UNIT / MIB)
    return statistics.median(seconds), max(peaks)


def _traces(like: RunFolder, out: Path) -> dict[str, float]:
    """Reading the traces of a measured run alone, and the commands that read and measure them."""
    copied = RunFolder(out / like.path.name)
    copytree(like.path, copied.path)
    size = copied.traces.stat().st_size / 1e6
    say("reading traces")
    times = []
    for _ in range(TIMES):
        start = time.perf_counter()
        # Bound, so that what it takes to free it is not counted.
        recorded = read_run(copied)
        times.append(time.perf_counter() - start)
        del recorded
    rescored, _ = _measured(("rescore", str(copied.path)), TIMES_SLOW)
    verified, peak = _measured(("leaderboard", str(out), "--verify"), TIMES_SLOW)
    return {
        "traces_mb": size,
        "read, MB/s": size / statistics.median(times),
        "rescore, s": rescored,
        "leaderboard --verify, s": verified,
        "leaderboard --verify, peak MiB": peak,
    }

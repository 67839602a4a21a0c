"""Where and with what a run was made, for the manifest; secrets are taken out."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

LIBRARIES = (
    "specbench-llm",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "flashinfer-python",
    "numpy",
    "scipy",
    "pydantic",
)

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUDA_VISIBLE_DEVICES")

REMOVED = "<removed>"

_SECRET_FLAG = re.compile(r"^--?[\w-]*(key|token|secret|password|auth)[\w-]*$", re.IGNORECASE)
_SECRET_PAIR = re.compile(
    r"^(--?)?([\w.-]*(?:key|token|secret|password|auth)[\w.-]*)=(.*)$", re.IGNORECASE | re.DOTALL
)
_SECRET_TEXT = re.compile(
    r"\b(?:sk|hf|ghp|github_pat|xox[a-z])[-_][A-Za-z0-9_-]{8,}|(?<=://)[^/@\s]+(?=@)"
    r"|(?<=[Bb]earer )\S+"
)


def without_secrets(command: Sequence[str]) -> tuple[str, ...]:
    """A command line with keys, tokens, passwords and user names in URLs replaced."""
    cleaned: list[str] = []
    hide_next = False
    for word in command:
        if hide_next:
            cleaned.append(REMOVED)
            hide_next = False
            continue
        pair = _SECRET_PAIR.match(word)
        if pair and not _harmless(pair[2]):
            word = f"{pair[1] or ''}{pair[2]}={REMOVED}"
        hide_next = bool(_SECRET_FLAG.match(word)) and not _harmless(word)
        cleaned.append(_SECRET_TEXT.sub(REMOVED, word))
    return tuple(cleaned)


def _harmless(name: str) -> bool:
    # --max-new-tokens and workload.max_new_tokens count tokens; --hf-token holds one.
    return "max" in name.lower() or "per" in name.lower()


def git_state(folder: Path) -> dict[str, object] | None:
    """Commit of the repository around ``folder`` and whether files differ; None outside one."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit, "dirty": bool(_git(folder, "status", "--porcelain"))}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def hardware() -> dict[str, object]:
    """Processor, cores and memory of this machine."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {
        "cpu": _cpu_model(),
        "cores_physical": psutil.cpu_count(logical=False),
        "cores_logical": psutil.cpu_count(),
        "cores_usable": affinity,
        "memory_bytes": psutil.virtual_memory().total,
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor()


def libraries() -> dict[str, str]:
    """Versions of the installed libraries that can change a number."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def environment(folder: Path) -> dict[str, object]:
    """Everything about this machine that the manifest keeps."""
    return {
        "platform": platform.platform(),
        "executable": Path(sys.executable).name,
        "hardware": hardware(),
        "libraries": libraries(),
        "git": git_state(folder),
        "variables": {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
    }

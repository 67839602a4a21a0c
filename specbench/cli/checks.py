"""What `specbench doctor` looks at: each check says what it found and what would mend it."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

import psutil

from specbench.catalog import names
from specbench.errors import SpecbenchError
from specbench.models.locate import DEMO_MODEL, locate
from specbench.suites.loader import locate as locate_suite

CGROUP = Path("/sys/fs/cgroup")
NATIVE = "pip install 'specbench-llm[native]'"


class Status(StrEnum):
    """``MISSING`` keeps the native engine from running; ``OPTIONAL`` costs one ability."""

    OK = "ok"
    MISSING = "missing"
    OPTIONAL = "optional"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: what was looked at, how it stands, what was found, and the next step."""

    name: str
    status: Status
    found: str
    fix: str = ""


def usable_cores(cgroup: Path = CGROUP) -> float:
    """Cores this process may use: its affinity mask, cut by the control group's quota."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota, _, period = _read(cgroup / "cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        return min(float(allowed or 1), int(quota) / int(period))
    return float(allowed or 1)


def usable_memory(cgroup: Path = CGROUP) -> int:
    """Bytes of memory this process may use: the machine's, cut by the control group's limit."""
    limit = _read(cgroup / "memory.max")
    total = int(psutil.virtual_memory().total)
    return min(total, int(limit)) if limit.isdigit() else total


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _module(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except (ImportError, OSError):  # OSError: a shared library of the package does not load
        return None


def python() -> Iterator[Check]:
    """Interpreter and machine."""
    yield Check("python", Status.OK, f"{platform.python_version()} on {platform.system()}")
    yield Check("cores", Status.OK, f"{usable_cores():g} usable of {os.cpu_count()}")
    total, free = usable_memory() / 2**30, psutil.virtual_memory().available / 2**30
    yield Check("memory", Status.OK, f"{total:.1f} GiB, {min(total, free):.1f} GiB free")


def torch() -> Iterator[Check]:
    """Torch, its CPU kernels and the CUDA devices it sees."""
    module = _module("torch")
    if module is None:
        yield Check("torch", Status.MISSING, "cannot be imported", NATIVE)
        return
    capability = module.backends.cpu.get_cpu_capability()
    threads = module.get_num_threads()
    yield Check("torch", Status.OK, f"{module.__version__}, {threads} threads, {capability}")
    if module.backends.mkldnn.is_available():
        yield Check("oneDNN", Status.OK, "packed weights make verification cheap")
    else:
        yield Check("oneDNN", Status.OPTIONAL, "not in this torch: verification costs more")
    count = module.cuda.device_count() if module.cuda.is_available() else 0
    if count:
        devices = ", ".join(module.cuda.get_device_name(i) for i in range(count))
        yield Check("CUDA", Status.OK, devices)
    else:
        yield Check("CUDA", Status.OPTIONAL, "no device", "the CPU is used")


def _package(name: str, absent: Status, fix: str) -> Check:
    try:
        return Check(name, Status.OK, version(name))
    except PackageNotFoundError:
        return Check(name, absent, "not installed", fix)


def packages() -> Iterator[Check]:
    """Packages behind engines, attention back ends and plots."""
    yield _package("transformers", Status.MISSING, NATIVE)
    yield _package("flashinfer-python", Status.OPTIONAL, "pip install 'specbench-llm[gpu]'")
    yield _package("httpx", Status.OPTIONAL, "pip install 'specbench-llm[serve]'")
    yield _package("xllamacpp", Status.OPTIONAL, "pip install 'specbench-llm[serve-llamacpp]'")
    yield _package("datasets", Status.OPTIONAL, "pip install 'specbench-llm[data]'")
    yield _package("matplotlib", Status.OPTIONAL, "pip install 'specbench-llm[report]'")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium:
        yield Check("chromium", Status.OK, chromium)
    else:
        yield Check(
            "chromium", Status.OPTIONAL, "not found: report pages are not screenshot-tested"
        )


def data() -> Iterator[Check]:
    """The demo model, the suites, and a place for results."""
    try:
        yield Check("demo model", Status.OK, str(locate(DEMO_MODEL, offline=True).path))
    except SpecbenchError as error:
        fix = f"specbench models fetch {DEMO_MODEL}"
        yield Check("demo model", Status.OPTIONAL, error.message, fix)
    for name in names("suites"):
        try:
            yield Check(f"suite {name}", Status.OK, str(locate_suite(name)))
        except SpecbenchError as error:
            yield Check(f"suite {name}", Status.OPTIONAL, error.message, error.hint)
    # The folder is made by the first run, so an absent one is judged by its parent.
    results = Path("results").absolute()
    place = results if results.exists() else results.parent
    if os.access(place, os.W_OK | os.X_OK):
        yield Check("results", Status.OK, f"{results} is writable")
    else:
        yield Check("results", Status.MISSING, f"cannot write to {place}", "give --out DIR to run")


CHECKS: tuple[Callable[[], Iterator[Check]], ...] = (python, torch, packages, data)
"""In the order in which doctor shows them."""

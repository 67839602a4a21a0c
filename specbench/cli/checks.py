"""What `specbench doctor` looks at: each check says what it found and what would mend it."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

from specbench.catalog import names
from specbench.cli.finding import Check, Status
from specbench.cli.gpu_checks import gpu
from specbench.errors import SpecbenchError
from specbench.models.host import free_memory, usable_cores, usable_memory
from specbench.models.locate import DEMO_MODEL, locate
from specbench.suites.loader import locate as locate_suite

NATIVE = "pip install 'specbench-llm[native]'"


def _module(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except (ImportError, OSError):  # OSError: a shared library of the package does not load
        return None


def python() -> Iterator[Check]:
    """Interpreter and machine."""
    yield Check("python", Status.OK, f"{platform.python_version()} on {platform.system()}")
    yield Check("cores", Status.OK, f"{usable_cores():g} usable of {os.cpu_count()}")
    total, free = usable_memory() / 2**30, free_memory() / 2**30
    yield Check("memory", Status.OK, f"{total:.1f} GiB, {free:.1f} GiB free")


def torch() -> Iterator[Check]:
    """Torch, its CPU kernels and the GPUs it can use."""
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
    yield from gpu(module)


def _package(name: str, absent: Status, fix: str) -> Check:
    try:
        return Check(name, Status.OK, version(name))
    except PackageNotFoundError:
        return Check(name, absent, "not installed", fix)


def packages() -> Iterator[Check]:
    """Packages behind engines and plots."""
    yield _package("transformers", Status.MISSING, NATIVE)
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

"""What `specbench doctor` looks at on GPUs: driver, devices, FlashInfer and its compiler."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from specbench.cli.finding import Check, Status
from specbench.errors import PrerequisiteError
from specbench.models.cuda import Gpu, compiler_version, driver_version, gpus, trouble

PACKAGE = "flashinfer-python"


def gpu(torch: Any) -> Iterator[Check]:
    """Driver and CUDA, each device, and what FlashInfer needs where there is one.

    Args:
        torch: the module, or what stands for it in tests.
    """
    driver = driver_version()
    words = f"driver {driver}" if driver else "no driver version to be read"
    if (why := trouble(torch)) is not None:
        found = f"{why.message}; {words}" if driver else why.message
        yield Check("CUDA", Status.OPTIONAL, found, why.hint)
    else:
        yield Check("CUDA", Status.OK, f"torch is built with {torch.version.cuda}, {words}")
    devices = list(gpus(torch))
    for one in devices:
        yield _device(one)
    yield _flashinfer(torch, devices)
    if devices:
        yield _compiler()


def _device(one: Gpu) -> Check:
    major, minor = one.capability
    free, total = one.free / 2**30, one.total / 2**30
    found = f"{one.name}, compute capability {major}.{minor}, {total:.1f} GiB, {free:.1f} GiB free"
    return Check(f"cuda:{one.index}", Status.OK, found)


def _flashinfer(torch: Any, devices: list[Gpu]) -> Check:
    """The package's version, or why it cannot be used."""
    try:
        installed = version(PACKAGE)
    except PackageNotFoundError:
        fix = "pip install 'specbench-llm[gpu]'" if devices else ""
        return Check(PACKAGE, Status.OPTIONAL, "not installed: attention by torch alone", fix)
    if not devices:
        return Check(PACKAGE, Status.OPTIONAL, f"{installed}, of no use without a GPU")
    from specbench.models.attention.flashinfer import require_flashinfer

    try:
        require_flashinfer(torch.device("cuda", devices[0].index))
    except PrerequisiteError as error:
        return Check(PACKAGE, Status.OPTIONAL, f"{installed}: {error.message}", error.hint)
    return Check(PACKAGE, Status.OK, installed)


def _compiler() -> Check:
    """FlashInfer compiles its kernels where they are first used."""
    found, ninja = compiler_version(), shutil.which("ninja")
    if found and ninja:
        return Check("nvcc", Status.OK, f"{found}, and ninja")
    lacking = " and ".join(["nvcc"] * (not found) + ["ninja"] * (not ninja))
    return Check(
        "nvcc",
        Status.OPTIONAL,
        f"{lacking} not found: FlashInfer compiles kernels at their first use",
        "install the CUDA toolkit of torch's version and ninja, or flashinfer-jit-cache",
    )

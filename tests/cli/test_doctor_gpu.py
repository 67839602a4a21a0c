"""What doctor says of GPUs, on machines made up here."""

from __future__ import annotations

import pytest

from specbench.cli import gpu_checks
from specbench.cli.finding import Status
from specbench.errors import PrerequisiteError
from specbench.models.attention import flashinfer
from tests.made_up_cuda import NO_DRIVER, TOO_OLD, torch_with

H200 = ("NVIDIA H200", (9, 0), 139.0, 140.0)
V100 = ("Tesla V100-SXM2-32GB", (7, 0), 31.0, 32.0)


@pytest.fixture
def found(monkeypatch):
    """Checks by name, for a torch, a driver, an installed FlashInfer and programs."""

    def look(torch, driver="580.65.06", installed=None, nvcc=None, ninja=None):
        def version(name):
            if installed is None:
                raise gpu_checks.PackageNotFoundError(name)
            return installed

        monkeypatch.setattr(gpu_checks, "driver_version", lambda: driver)
        monkeypatch.setattr(gpu_checks, "version", version)
        monkeypatch.setattr(gpu_checks, "compiler_version", lambda: nvcc)
        monkeypatch.setattr(gpu_checks.shutil, "which", lambda name: ninja)
        torch.device = lambda kind, index: f"{kind}:{index}"
        return {check.name: check for check in gpu_checks.gpu(torch)}

    return look


def test_a_device_with_all_that_it_needs(found, monkeypatch):
    monkeypatch.setattr(flashinfer, "require_flashinfer", lambda device: object())
    checks = found(torch_with(H200), installed="0.6.1", nvcc="release 13.0", ninja="/bin/ninja")
    assert {check.status for check in checks.values()} == {Status.OK}
    assert checks["CUDA"].found == "torch is built with 13.0, driver 580.65.06"
    memory = "compute capability 9.0, 140.0 GiB, 139.0 GiB free"
    assert checks["cuda:0"].found == f"NVIDIA H200, {memory}"
    assert checks["flashinfer-python"].found == "0.6.1"
    assert checks["nvcc"].found == "release 13.0, and ninja"


def test_a_driver_that_is_too_old(found):
    checks = found(torch_with(said=TOO_OLD), driver="570.86.15")
    assert checks.keys() == {"CUDA", "flashinfer-python"}
    assert checks["CUDA"].status is Status.OPTIONAL
    assert "too old: it runs CUDA up to 12.8" in checks["CUDA"].found
    assert checks["CUDA"].found.endswith("driver 570.86.15")
    assert "update the driver, or install a torch for CUDA 12.8" in checks["CUDA"].fix


def test_no_driver_and_a_flashinfer_of_no_use(found):
    checks = found(torch_with(said=NO_DRIVER), driver=None, installed="0.6.1")
    assert "no NVIDIA driver is installed" in checks["CUDA"].found
    assert "no use without a GPU" in checks["flashinfer-python"].found
    assert checks["flashinfer-python"].status is Status.OPTIONAL


def test_a_device_without_flashinfer_and_compiler(found):
    checks = found(torch_with(H200))
    assert "specbench-llm[gpu]" in checks["flashinfer-python"].fix
    assert checks["nvcc"].found.startswith("nvcc and ninja not found")
    assert found(torch_with(H200), nvcc="release 13.0")["nvcc"].found.startswith("ninja not found")


def test_why_an_installed_flashinfer_cannot_run(found, monkeypatch):
    def refuse(device):
        assert device == "cuda:0"
        raise PrerequisiteError("too old a device", "leave target.attention out")

    monkeypatch.setattr(flashinfer, "require_flashinfer", refuse)
    check = found(torch_with(V100), installed="0.6.1")["flashinfer-python"]
    assert check.status is Status.OPTIONAL
    assert check.found == "0.6.1: too old a device"
    assert check.fix == "leave target.attention out"

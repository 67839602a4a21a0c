"""Why a CUDA device cannot be used, and what driver there is, as torch and the driver say it."""

from __future__ import annotations

import warnings

import pytest

from specbench.errors import PrerequisiteError
from specbench.models import cuda
from specbench.models.checkpoint import require_device
from specbench.models.cuda import Gpu, cuda_version, driver_version, gpus, trouble, unusable
from tests.made_up_cuda import NO_DRIVER, NO_GPU, TOO_OLD, torch_with

H200 = ("NVIDIA H200", (9, 0), 139.0, 140.0)


def test_a_device_that_works_is_no_trouble():
    torch = torch_with(H200)
    assert trouble(torch) is None
    assert list(gpus(torch)) == [Gpu(0, "NVIDIA H200", (9, 0), 139 * 2**30, 140 * 2**30)]


@pytest.mark.parametrize(
    ("said", "why", "fix"),
    [
        (TOO_OLD, "runs CUDA up to 12.8, and torch 2.11.0+cu130 is built with CUDA 13.0", "12.8"),
        (NO_DRIVER, "no NVIDIA driver is installed", "pass the GPU on"),
        (NO_GPU, "there is a driver and no GPU", "CUDA_VISIBLE_DEVICES"),
        ("CUDA unknown error - this may be", "CUDA unknown error", "specbench doctor"),
    ],
)
def test_no_device_at_all(said, why, fix):
    torch = torch_with(said=said)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch's own warning says the same
        error = trouble(torch)
        assert list(gpus(torch)) == []
    assert error is not None
    assert error.exit_code == 3
    assert why in error.message
    assert fix in error.hint
    assert "--device cpu" in error.hint


def test_a_driver_without_devices_that_begins_all_the_same():
    assert "no GPU" in trouble(torch_with()).message


def test_a_torch_for_cpus_says_so_whatever_the_driver_is():
    error = trouble(torch_with(built=None, version="2.11.0+cpu"))
    assert "torch 2.11.0+cpu is built for CPUs alone" in error.message


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("CUDA error: invalid device ordinal\nCUDA kernel errors", "there are 1 GPUs, counted"),
        ("CUDA error: no kernel image is available for execution", "no kernels for this GPU"),
    ],
)
def test_one_device_of_several(said, why):
    error = unusable(torch_with(H200), "cuda:3", said)
    assert error.message.startswith("device cuda:3 cannot be used here: ")
    assert why in error.message


def test_kernels_that_there_are_are_named():
    error = unusable(torch_with(H200), "cuda", "no kernel image is available")
    assert "sm_80, sm_90" in error.hint


def test_the_refusal_of_torch_itself_is_explained():
    import torch

    if torch.version.cuda is not None:
        pytest.skip("this torch is built with CUDA")
    with pytest.raises(PrerequisiteError, match=r"cuda:0 cannot be used here: .* CPUs alone"):
        require_device(torch, "cuda:0")


@pytest.mark.parametrize(
    ("number", "version"), [(12080, "12.8"), (13000, "13.0"), (11040, "11.4"), (9020, "9.2")]
)
def test_versions_in_one_number(number, version):
    assert cuda_version(number) == version


@pytest.mark.parametrize(
    "text",
    [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:12:01 UTC 2025\n"
        "GCC version:  gcc version 12.3.0\n",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n",
    ],
)
def test_the_driver_is_read_from_its_module(tmp_path, text):
    (tmp_path / "version").write_text(text)
    assert driver_version(tmp_path / "version") == "580.65.06"


def program(folder, name, text, code=0):
    """A program on the path that prints a text."""
    file = folder / name
    file.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit {code}\n")
    file.chmod(0o755)


def test_programs_say_the_rest(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert cuda.printed("nvidia-smi") is None
    program(tmp_path, "nvidia-smi", "570.86.15\n570.86.15")
    assert driver_version(tmp_path / "absent") == "570.86.15"
    program(tmp_path, "nvidia-smi", "has failed", code=9)
    assert driver_version(tmp_path / "absent") is None
    program(
        tmp_path,
        "nvcc",
        "nvcc: NVIDIA (R) Cuda compiler driver\n"
        "Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0/compiler",
    )
    assert cuda.compiler_version() == "release 13.0"

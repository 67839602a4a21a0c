"""What stands for torch on machines with other GPUs and drivers; the texts are torch's own."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

TOO_OLD = (
    "The NVIDIA driver on your system is too old (found version 12080). Please update your GPU "
    "driver by downloading and installing a new version from the URL: "
    "http://www.nvidia.com/Download/index.aspx Alternatively, go to: https://pytorch.org to "
    "install a PyTorch version that has been compiled with your version of the CUDA driver."
)
NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed "
    "a driver from http://www.nvidia.com/Download/index.aspx"
)
NO_GPU = "No CUDA GPUs are available"
GIB = 2**30


def torch_with(*devices, said="", built="13.0", version="2.11.0+cu130"):
    """A stand-in for torch.

    Args:
        devices: (name, capability, free GiB, total GiB) of each GPU.
        said: the text with which CUDA fails to begin; empty where it does not.
        built: the CUDA that torch is built with, None for a CPU build.
    """

    def available():
        if said == TOO_OLD:
            warnings.warn(f"CUDA initialization: {said}", UserWarning, stacklevel=2)
        return bool(devices)

    def init():
        if said:
            raise RuntimeError(said)

    cuda = SimpleNamespace(
        is_available=available,
        init=init,
        device_count=lambda: len(devices),
        get_device_name=lambda index: devices[index][0],
        get_device_capability=lambda index: devices[index][1],
        mem_get_info=lambda index: tuple(int(size * GIB) for size in devices[index][2:]),
        get_arch_list=lambda: ["sm_80", "sm_90"],
    )
    return SimpleNamespace(
        __version__=version, version=SimpleNamespace(cuda=built, hip=None), cuda=cuda
    )

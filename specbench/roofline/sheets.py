"""Data sheets that the figures of ``devices`` are from, and how they print rates."""

from __future__ import annotations

from dataclasses import dataclass

DENSE, BOTH, SPARSE = "dense", "dense and sparse", "sparse, halved here"
"""What a sheet prints of 16-bit and 8-bit rates. Sparse ones count half of the numbers as zeros."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A maker's document.

    Attributes:
        title: for people.
        url: where it is found.
        rates: of ``DENSE``, ``BOTH`` and ``SPARSE``.
    """

    title: str
    url: str
    rates: str


_NVIDIA = "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center"
_GEFORCE = "https://images.nvidia.com/aem-dam/Solutions/geforce"
_AMD = "https://www.amd.com/content/dam/amd/en/documents/instinct-tech-docs"

H200 = Sheet("NVIDIA H200 data sheet", "https://www.nvidia.com/en-us/data-center/h200/", SPARSE)
H100 = Sheet("NVIDIA H100 data sheet", "https://www.nvidia.com/en-us/data-center/h100/", SPARSE)
H100_PCIE = Sheet(
    "NVIDIA H100 data sheet of 2023",
    "https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet",
    SPARSE,
)
GH200 = Sheet(
    "NVIDIA GH200 data sheet",
    "https://www.amax.com/content/files/2023/12/NVIDIA_GH200_Grace_Hopper_Superchip_Datasheet.pdf",
    BOTH,
)
A100 = Sheet(
    "NVIDIA A100 data sheet",
    f"{_NVIDIA}/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf",
    BOTH,
)
A10 = Sheet("NVIDIA A10 data sheet", f"{_NVIDIA}/a10/pdf/a10-datasheet.pdf", BOTH)
B200 = Sheet(
    "NVIDIA DGX B200 data sheet",
    "https://resources.nvidia.com/en-us-dgx-systems/dgx-b200-datasheet",
    SPARSE,
)
B300 = Sheet(
    "NVIDIA HGX B300 data sheet",
    "https://dam-cdn.nvd.orangelogic.com/AssetLink/1k0p832eq8r5ca0u5383ie5o4tp3bst1.pdf",
    SPARSE,
)
L40S = Sheet(
    "NVIDIA L40S data sheet",
    "https://resources.nvidia.com/en-us-l40s/l40s-datasheet-28413",
    BOTH,
)
L4 = Sheet(
    "NVIDIA L4 data sheet",
    "https://resources.nvidia.com/en-us-data-center-overview/l4-gpu-datasheet",
    SPARSE,
)
T4 = Sheet("NVIDIA T4 data sheet", f"{_NVIDIA}/tesla-t4/t4-tensor-core-datasheet-951643.pdf", DENSE)
V100 = Sheet(
    "NVIDIA V100 data sheet",
    "https://images.nvidia.com/content/technologies/volta/pdf/"
    "volta-v100-datasheet-update-us-1165301-r5.pdf",
    DENSE,
)
AMPERE = Sheet(
    "NVIDIA Ampere GA102 architecture white paper, appendix A",
    "https://www.nvidia.com/content/PDF/nvidia-ampere-ga-102-gpu-architecture-whitepaper-v2.pdf",
    BOTH,
)
ADA = Sheet(
    "NVIDIA Ada GPU architecture white paper, appendix A",
    f"{_GEFORCE}/ada/nvidia-ada-gpu-architecture.pdf",
    BOTH,
)
BLACKWELL = Sheet(
    "NVIDIA RTX Blackwell GPU architecture white paper, appendix A",
    f"{_GEFORCE}/blackwell/nvidia-rtx-blackwell-gpu-architecture.pdf",
    BOTH,
)
MI250X = Sheet(
    "AMD Instinct MI250X data sheet",
    "https://www.amd.com/en/products/accelerators/instinct/mi200/mi250x.html",
    DENSE,
)
MI300X = Sheet(
    "AMD Instinct MI300X data sheet", f"{_AMD}/data-sheets/amd-instinct-mi300x-data-sheet.pdf", BOTH
)
MI325X = Sheet(
    "AMD Instinct MI325X data sheet", f"{_AMD}/product-briefs/instinct-mi325x-datasheet.pdf", BOTH
)

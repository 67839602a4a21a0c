"""How many bits a model's parameters take, as its ``config.json`` says; no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.heads.layouts.llama_config import said, text_config
from specbench.roofline.cost import Precision
from specbench.roofline.devices import BITS

ASSUMED = "bfloat16"
"""The type of a file that names none."""

MXFP4_BITS = 4.25
"""4 bits and a share of one scale byte per 32 numbers."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person asks for instead of what the file says; None leaves the file's.

    Attributes:
        dtype: in which matrices are multiplied, of ``BITS``.
        kv_dtype: of the KV cache.
        bits: of a parameter of the layers, experts among them.
    """

    dtype: str | None = None
    kv_dtype: str | None = None
    bits: float | None = None


def read_precision(config: Mapping[str, Any], wanted: Wanted, name: str) -> Precision:
    """How a model is stored and multiplied. Scales beside quantised numbers are left out.

    Weights of 8-bit floats are multiplied as such; other quantised ones are only stored so and are
    multiplied in 16 bits, as kernels for few rows do.

    Raises:
        PrerequisiteError: a data type or a way of quantising that is not known here.
    """
    text = text_config(config)
    dtype = said(text, "dtype", str, name) or said(text, "torch_dtype", str, name)
    dtype = dtype or said(config, "dtype", str, name) or said(config, "torch_dtype", str, name)
    dtype = (dtype or ASSUMED).removeprefix("torch.")
    if dtype not in BITS:
        raise PrerequisiteError(
            f"{name}: config.json says dtype {dtype!r}, known here: {', '.join(BITS)}",
            "say another with --dtype",
        )
    quantised = said(config, "quantization_config", Mapping, name)
    matrix = expert = None
    if quantised is not None and wanted.bits is None:
        matrix, expert, multiplied = _quantised(quantised, name)
        dtype = multiplied or dtype
    dtype = wanted.dtype or dtype
    plain = wanted.bits or BITS[dtype]
    kv = BITS[wanted.kv_dtype] if wanted.kv_dtype else max(16, BITS[dtype])
    return Precision(dtype, matrix or plain, expert or matrix or plain, kv)


def _quantised(
    config: Mapping[str, Any], name: str
) -> tuple[float | None, float | None, str | None]:
    """Bits of the layers' matrices and of the experts, and the type they are multiplied in."""
    method = said(config, "quant_method", str, name)
    if method in ("fp8", "fbgemm_fp8"):
        return 8, 8, "float8"
    if method == "mxfp4":
        return None, MXFP4_BITS, None
    if method in ("gptq", "awq") and (bits := said(config, "bits", int, name)):
        return bits, bits, None
    if method == "compressed-tensors":
        found = {_weight_bits(group) for group in (config.get("config_groups") or {}).values()}
        if len(found) == 1 and (bits := found.pop()):
            return bits, bits, None
    raise PrerequisiteError(
        f"{name}: how quantization_config ({method}) stores weights is not known here",
        "say how many bits a parameter has: --quant 4",
    )


def _weight_bits(group: object) -> int | None:
    weights = group.get("weights") if isinstance(group, Mapping) else None
    bits = weights.get("num_bits") if isinstance(weights, Mapping) else None
    return bits if isinstance(bits, int) else None

"""Reading a checkpoint folder with transformers, strictly: nothing remote, nothing made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.cuda import unusable
from specbench.models.quiet import quiet

_READ_AS = {"mimo": "qwen2"}
"""Model types that come as code -> the type with the same layers, which transformers knows."""


def require_torch() -> Any:
    """The torch module; PrerequisiteError where it or transformers is not installed."""
    try:
        import torch
        import transformers  # noqa: F401  both are needed, and both come with the same extra
    except ImportError as error:
        raise PrerequisiteError(
            f"loading models needs {error.name}", "type: pip install 'specbench-llm[native]'"
        ) from None
    return torch


def require_device(torch: Any, name: str) -> Any:
    """The torch device of a name.

    Raises:
        UsageError: not a device name.
        PrerequisiteError: the device cannot be used on this machine.
    """
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"unknown device {name!r}", "use cpu, cuda or cuda:N") from None
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        if device.type == "cuda":
            raise unusable(torch, name, str(error)) from None
        raise PrerequisiteError(
            f"device {name} cannot be used here: {_first_line(error)}",
            "use --device cpu, or see: specbench doctor",
        ) from None
    return device


def load_tokenizer(path: Path, *, trust_remote_code: bool = False) -> Any:
    """The tokenizer of a model folder, without its weights. Raises PrerequisiteError."""
    require_torch()
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(
            str(path), local_files_only=True, trust_remote_code=trust_remote_code
        )
    except (ValueError, OSError, ImportError) as error:
        raise PrerequisiteError(
            f"the tokenizer in {path} cannot be loaded: {_first_line(error)}",
            "check its tokenizer files",
        ) from error


def read_checkpoint(
    torch: Any, path: Path, weights: list[Path], dtype: str, trust_remote_code: bool
) -> Any:
    """The model in a folder with its weights, on the CPU.

    Raises:
        PrerequisiteError: transformers cannot load it, or a tensor is missing.
    """
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    try:
        with quiet():
            model, info = AutoModelForCausalLM.from_pretrained(
                str(path),
                dtype=dtype if dtype == "auto" else getattr(torch, dtype),
                local_files_only=True,
                use_safetensors=weights[0].suffix == ".safetensors",
                weights_only=True,
                trust_remote_code=trust_remote_code,
                output_loading_info=True,
                **_known_configuration(path),
            )
    except (ValueError, OSError, ImportError, RuntimeError, SafetensorError) as error:
        raise PrerequisiteError(
            f"transformers cannot load {path}: {_first_line(error)}",
            "check the files and the installed transformers version",
        ) from error
    # transformers fills what is missing with random numbers and goes on.
    if absent := sorted([*info["missing_keys"], *info["mismatched_keys"]], key=str):
        raise PrerequisiteError(
            f"{path} lacks {len(absent)} tensors of its architecture, first {absent[0]}",
            "fetch or copy the model again",
        )
    return model


def _known_configuration(path: Path) -> dict[str, Any]:
    """The configuration as a keyword, where the folder's own type is to be read as another."""
    from transformers import CONFIG_MAPPING, AutoConfig

    written = json.loads((path / "config.json").read_text())
    kind = written.pop("model_type", None)
    if kind not in _READ_AS or kind in CONFIG_MAPPING:
        return {}
    # Layers that draft are not part of the target; transformers leaves their tensors alone.
    written.pop("auto_map", None)
    return {"config": AutoConfig.for_model(_READ_AS[kind], **written)}


def materialise(model: Any) -> Any:
    """Copy weights out of the mapped file; tied ones are one parameter and stay tied.

    Mapped tensors are not aligned to cache lines, and their first read, or any after memory
    pressure, is a disk read inside a measured step.
    """
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    return model


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)

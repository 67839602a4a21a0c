"""Load a located model for measuring: safetensors only, no code from the checkpoint, eval mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from specbench.catalog import nearest
from specbench.core.cache import cache_folder
from specbench.errors import UsageError
from specbench.models.checkpoint import (
    load_tokenizer,
    materialise,
    read_checkpoint,
    require_device,
    require_torch,
)
from specbench.models.folder import check_folder
from specbench.models.locate import Location
from specbench.models.quant.settings import NOT_QUANTISED, Quant
from specbench.models.sequence_ends import context_limit, eos_ids
from specbench.models.vocabulary import real_ids
from specbench.models.weights import file_sha256, weight_bytes, weight_hash

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "bfloat16", "float16", "auto")


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to measure.

    Attributes:
        model: the transformers model, in eval mode, without gradients.
        tokenizer, config: as transformers gives them.
        location: where it came from; ``path`` is set and, for hub models, the commit.
        dtype, device: of the weights.
        weight_hash: SHA-256 over the weight files, whatever the dtype they are loaded in.
        weight_bytes: bytes in memory, tied tensors once, quantised ones as they are stored.
        context_limit: longest prompt plus output, in tokens.
        eos_ids: every id that ends an answer, sorted.
        real_vocab_size: ids that have a token; the logits may have more rows (padding).
        quant: how linear layers are stored; ``dtype`` is that of everything else.
    """

    model: Any
    tokenizer: Any
    config: Any
    location: Location
    dtype: torch.dtype
    device: torch.device
    weight_hash: str
    weight_bytes: int
    context_limit: int
    eos_ids: tuple[int, ...]
    real_vocab_size: int
    quant: Quant = NOT_QUANTISED


def load_model(
    location: Location,
    *,
    dtype: str = "auto",
    device: str = "cpu",
    trust_remote_code: bool = False,
    allow_pickle: bool = False,
    progress: Callable[[str], None] | None = None,
    quant: Quant = NOT_QUANTISED,
    split: Callable[[Any], None] | None = None,
) -> LoadedModel:
    """Load a model; converts a GGUF file first (once) and downloads a hub model that is not cached.

    Args:
        location: from ``locate``.
        dtype: float32, bfloat16, float16, or auto for the checkpoint's own.
        device: a torch device name such as cpu or cuda:0.
        trust_remote_code: run Python code that comes with the checkpoint.
        allow_pickle: read ``.bin`` weights (torch's weights-only reader) without safetensors.
        progress: called with one line of text per long stage.
        quant: weight-only quantisation of the linear layers.
        split: keeps of the model, in place, what this process is to hold.

    Raises:
        UsageError: unknown dtype or device name.
        PrerequisiteError: a package, the device, a file or a tensor is missing, transformers cannot
            load this architecture, or it cannot be quantised.
    """
    torch = require_torch()
    if dtype not in DTYPES:
        raise UsageError(f"unknown dtype {dtype!r}", nearest(dtype, list(DTYPES)))
    on = require_device(torch, device)
    location = _on_disk(location, progress or (lambda _: None))
    assert location.path is not None
    weights = check_folder(location.path, allow_pickle=allow_pickle)
    tokenizer = load_tokenizer(location.path, trust_remote_code=trust_remote_code)
    model = read_checkpoint(torch, location.path, weights, dtype, trust_remote_code)
    model.eval().requires_grad_(False)
    if quant.on:
        from specbench.models.quant.apply import quantise_linears

        quantise_linears(model, quant, location.name)
    whole = weight_bytes(model)
    if split is not None:
        split(model)
    model = materialise(model) if on.type == "cpu" else model.to(on)
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        config=model.config,
        location=location,
        dtype=model.dtype,
        device=on,
        weight_hash=weight_hash(location.path),
        weight_bytes=whole,
        context_limit=context_limit(model.config, tokenizer),
        eos_ids=eos_ids(model, tokenizer),
        real_vocab_size=len(real_ids(tokenizer)),
        quant=quant,
    )


def _on_disk(location: Location, progress: Callable[[str], None]) -> Location:
    """The location with its safetensors folder on this disk."""
    if location.kind == "gguf":
        from specbench.models.gguf_convert import convert

        assert location.path is not None
        digest = file_sha256(location.path)
        folder = convert(
            location.path, cache_folder() / "gguf" / digest[:16], progress=progress, sha256=digest
        )
        return replace(location, path=folder)
    if location.path is None:
        from specbench.models.fetch import download

        return download(location.name, location.revision or "main", progress)
    return location

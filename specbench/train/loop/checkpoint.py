"""Where a training stands, on disk: enough to go on as if nothing had happened.

One safetensors file holds the trained tensors and the optimiser's moments; it replaces the former
one at once, so that a kill leaves the older or the newer state. Random numbers are addressed by
step, and the order of batches by epoch, so that the step is all that is left to remember.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from specbench.errors import PrerequisiteError
from specbench.train.capture.disk import writing
from specbench.train.loop.means import Sums
from specbench.train.loop.optimisers import MOMENTS, Optimisers

LAST, BEST = "last.safetensors", "best.safetensors"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a training stands.

    Attributes:
        step: optimiser steps that were taken.
        seconds: spent in training so far, all calls together.
        tokens: tokens of all batches so far.
        best: highest value of a validation, and ``best_step`` where it was; None before the first.
        since_best: validations since then.
        stopped: why it is over; empty while it is not.
        total: steps of the whole training.
        processes: that train together.
        conversations: that are trained on, and ``names`` is the digest of what they are called.
        sums: figures since the last row of the curves, see ``loop.means``.
    """

    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    best: float | None = None
    best_step: int = 0
    since_best: int = 0
    stopped: str = ""
    total: int = 0
    processes: int = 1
    conversations: int = 0
    names: str = ""
    sums: Sums = field(default_factory=dict)


def save(
    folder: Path,
    standing: Standing,
    trained: Mapping[str, Tensor],
    module: nn.Module,
    optimisers: Optimisers,
) -> None:
    """Write ``last``.

    Raises:
        SpecbenchError: the disk is full; the former checkpoint is still there.
    """
    tensors = {f"weight.{name}": tensor for name, tensor in trained.items()}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            kept = optimisers.kept(parameter)
            tensors |= {f"{moment}.{name}": tensor for moment, tensor in kept.items()}
    _write(folder / LAST, tensors, standing)


def save_best(folder: Path, standing: Standing, trained: Mapping[str, Tensor]) -> None:
    """Write ``best``: weights alone. SpecbenchError: the disk is full."""
    _write(folder / BEST, {f"weight.{n}": t for n, t in trained.items()}, standing)


def _write(path: Path, tensors: Mapping[str, Tensor], standing: Standing) -> None:
    # Cloned: safetensors refuses tensors that share memory, and moments may be views.
    owned = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with writing(path, "it goes on from the last checkpoint") as part:
        save_file(owned, part, metadata={"standing": json.dumps(asdict(standing))})


def read(path: Path) -> tuple[Standing, dict[str, Tensor]] | None:
    """A checkpoint, or None where there is none.

    Raises:
        PrerequisiteError: a file that is no checkpoint.
    """
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            kept = json.loads(file.metadata()["standing"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        # JSON has no tuples.
        sums = {name: (total, count) for name, (total, count) in kept.pop("sums").items()}
        return Standing(**kept, sums=sums), tensors
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise PrerequisiteError(
            f"{path} is not a checkpoint of this training", "remove it to start from the beginning"
        ) from error


def weights(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The trained tensors of a checkpoint by their own names."""
    return {n.removeprefix("weight."): t for n, t in tensors.items() if n.startswith("weight.")}


def restore_moments(
    optimisers: Optimisers, module: nn.Module, tensors: Mapping[str, Tensor]
) -> None:
    """Put the optimisers' state back as ``save`` found it."""
    for name, parameter in module.named_parameters():
        kept = {m: tensors[f"{m}.{name}"] for m in MOMENTS if f"{m}.{name}" in tensors}
        if kept:
            optimisers.restore(parameter, kept)

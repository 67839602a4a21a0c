"""A checkpoint's tensors into a head's modules: every one in its place, none left over."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from specbench.errors import PrerequisiteError

_GATE_UP = ".mlp.experts.gate_up_proj"
_DOWN = ".mlp.experts.down_proj"


def fill(head: nn.Module, tensors: Mapping[str, Tensor], name: str) -> None:
    """Put tensors into a head that was laid out without storage.

    Experts lie one by one in checkpoints and as one tensor of all experts in transformers.

    Args:
        head: its state's names are the canonical ones (``configs.HeadCheckpoint``).
        tensors: of the checkpoint.
        name: of the checkpoint, for messages.

    Raises:
        PrerequisiteError: tensors that are missing, left over, or of another shape.
    """
    fused = {key: value for key, value in head.state_dict().items() if _is_fused(key)}
    wanted = {k: tuple(v.shape) for k, v in head.state_dict().items() if k not in fused}
    for key, value in fused.items():
        wanted |= _expert_shapes(key, value)
    _compare(wanted, tensors, name)
    state = {key: tensors[key] for key in wanted if ".mlp.experts." not in key}
    state |= {key: _fuse(key, value, tensors) for key, value in fused.items()}
    head.load_state_dict(state, assign=True)


def _compare(
    wanted: Mapping[str, tuple[int, ...]], tensors: Mapping[str, Tensor], name: str
) -> None:
    """Raise for the first tensor that does not fit, and say how many there are."""
    missing = [f"{k} is missing, wanted {list(v)}" for k, v in wanted.items() if k not in tensors]
    misshapen = [
        f"{key} is {list(tensors[key].shape)}, wanted {list(shape)}"
        for key, shape in wanted.items()
        if key in tensors and tuple(tensors[key].shape) != shape
    ]
    left = [
        f"{key} of {list(tensor.shape)} has no place in this head"
        for key, tensor in tensors.items()
        if key not in wanted
    ]
    if faults := [*missing, *misshapen, *left]:
        raise PrerequisiteError(
            f"{name}: {len(faults)} of its tensors do not fit; {faults[0]}",
            "see what it is: specbench models inspect PATH",
        )


def _is_fused(key: str) -> bool:
    return key.endswith((_GATE_UP, _DOWN))


def _expert_shapes(key: str, fused: Tensor) -> dict[str, tuple[int, ...]]:
    """Names and shapes of single experts; fused [E, 2I, H] or [E, H, I]."""
    experts, rows, width = fused.shape
    stem = key.rpartition(".")[0]
    if key.endswith(_DOWN):
        return {f"{stem}.{n}.down_proj.weight": (rows, width) for n in range(experts)}
    return {
        f"{stem}.{n}.{part}_proj.weight": (rows // 2, width)
        for n in range(experts)
        for part in ("gate", "up")
    }


def _fuse(key: str, fused: Tensor, tensors: Mapping[str, Tensor]) -> Tensor:
    """All experts' tensors as one; gate above up."""
    stem = key.rpartition(".")[0]
    if key.endswith(_DOWN):
        return torch.stack([tensors[f"{stem}.{n}.down_proj.weight"] for n in range(len(fused))])
    return torch.stack(
        [
            torch.cat([tensors[f"{stem}.{n}.{part}_proj.weight"] for part in ("gate", "up")])
            for n in range(len(fused))
        ]
    )

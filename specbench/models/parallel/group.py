"""The processes of one run whose target is sharded: who this one is, and how they talk.

Source of the environment: ``torchrun``, which starts N processes and gives each its RANK, the
WORLD_SIZE and where they meet.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import distributed

from specbench.errors import PrerequisiteError, UsageError

PATIENCE = timedelta(days=2)
"""How long a follower waits for the next command. A process that died is noticed at once: its
connection closes."""


@dataclass(frozen=True, slots=True)
class Group:
    """One process's view of the group.

    Attributes:
        rank: 0 for the leader.
        size: how many there are.
        device: where this one's shard lives.
        commands: connects hosts, whatever the device.
        tensors: connects devices.
    """

    rank: int
    size: int
    device: torch.device
    commands: Any
    tensors: Any

    @property
    def leads(self) -> bool:
        """Whether this process decides, and writes files."""
        return self.rank == 0


def required(settings: Mapping[str, Any]) -> int:
    """``target.tensor_parallel``. UsageError where something else is asked that it excludes."""
    size = int(settings.get("tensor_parallel", 1))
    if size > 1:
        for key in ("graphs", "compile"):
            if settings.get(key):
                raise UsageError(
                    f"target.{key} is for a target in one process, not with tensor_parallel",
                    f"leave target.{key} out",
                )
        if str(settings.get("quant", "none")) != "none":
            raise UsageError(
                f"quant = {settings['quant']}: quantised layers are not shared by processes",
                "leave target.quant out, or target.tensor_parallel",
            )
    return size


def join(size: int, device: str, environment: Mapping[str, str] = os.environ) -> Group:
    """Meet the other processes.

    Args:
        size: ``target.tensor_parallel``.
        device: ``target.device``; of CUDA devices each process takes its own.
        environment: what ``torchrun`` set.

    Raises:
        UsageError: this process was started alone, or among another number of processes.
        PrerequisiteError: torch was built without what connects them, or they do not meet.
    """
    given = environment.get("WORLD_SIZE")
    if given is None or int(given) != size:
        how = "was started alone" if given is None else f"is one of {given}"
        raise UsageError(
            f"target.tensor_parallel = {size}, and this process {how}",
            f"torchrun --nproc-per-node {size} -m specbench run ...",
        )
    cuda = torch.device(device).type == "cuda"
    own = torch.device(f"cuda:{environment['LOCAL_RANK']}" if cuda else device)
    if not distributed.is_available():
        raise PrerequisiteError(
            "this torch was built without torch.distributed", "install another build of torch"
        )
    if cuda:
        torch.cuda.set_device(own)
    backend = "nccl" if cuda else "gloo"
    try:
        distributed.init_process_group(backend, timeout=PATIENCE)
        commands = distributed.new_group(backend="gloo", timeout=PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise PrerequisiteError(
            f"the {size} processes do not meet: {str(error).splitlines()[0]}",
            "start them with torchrun on one machine, or give all nodes one --rdzv-endpoint",
        ) from error
    return Group(distributed.get_rank(), size, own, commands, distributed.group.WORLD)


def leave() -> None:
    """Let go of the others."""
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()

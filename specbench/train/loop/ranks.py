"""Training on several devices: one process each, started by ``torchrun``, gradients averaged.

All processes see the same folders: the first one writes them, the others read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from inspect import signature
from typing import Any

import torch
from torch import Tensor, distributed, nn

from specbench.errors import UsageError
from specbench.train.capture.corpus import Batch
from specbench.train.methods.method import Found, Method

PATIENCE = timedelta(days=14)
"""How long processes wait for each other: the first one may write data for days meanwhile."""
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True)
class Ranks:
    """This process among those that train together; ``size`` 1 where it is alone.

    Attributes:
        rank: 0 is the first.
        size: how many there are.
        device: where this one trains, and what they tell each other lies.
    """

    rank: int = 0
    size: int = 1
    device: torch.device = CPU

    @property
    def first(self) -> bool:
        """Whether this is the one that writes files and speaks."""
        return self.rank == 0

    def told(self, value: int) -> int:
        """The first process's number, in all of them; the others wait for it."""
        if self.size == 1:
            return value
        number = torch.tensor([value], device=self.device)
        distributed.broadcast(number, 0)
        return int(number.item())

    def mean(self, values: Tensor) -> Tensor:
        """Means of figures over all processes, in all of them."""
        if self.size == 1:
            return values
        summed = values.to(self.device, copy=True)
        distributed.all_reduce(summed)
        return summed / self.size


def device_of(name: str) -> str:
    """Where this process trains: of several with device ``cuda`` each takes one of its own.

    Raises:
        UsageError: several processes for one numbered device.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or not name.startswith("cuda"):
        return name
    if ":" in name:
        raise UsageError(
            f"target.device = {name!r} with {os.environ['WORLD_SIZE']} processes",
            'write device = "cuda": each process takes the next one',
        )
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}"


@contextmanager
def joined(device: torch.device) -> Iterator[Ranks]:
    """Join the group that ``torchrun`` started, if it did; leave it at the end."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Ranks(device=device)
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=PATIENCE)
    try:
        yield Ranks(distributed.get_rank(), distributed.get_world_size(), device)
    finally:
        distributed.destroy_process_group()


class Losses(nn.Module):
    """A method as a module whose call is its loss, which is what data parallelism wraps."""

    def __init__(self, method: Method) -> None:
        super().__init__()
        self.trained = method.module
        # In a tuple: what else a method holds is not looked at.
        self._method = (method,)

    def forward(self, batch: Batch, number: int) -> Found:
        """See ``Method.loss``."""
        return self._method[0].loss(batch, number)


class Averaged:
    """Losses whose gradients are averaged over all processes.

    Args:
        method: what is trained.
        ranks: who trains.
    """

    def __init__(self, method: Method, ranks: Ranks) -> None:
        module: Any = Losses(method)
        self._parallel = _parallel(module) if ranks.size > 1 else None
        self._call = self._parallel or module

    def __call__(self, batch: Batch, number: int) -> Found:
        """Loss of this process's batch."""
        found: Found = self._call(batch, number)
        return found

    def alone(self) -> AbstractContextManager[Any]:
        """Gradients are added up here and not averaged yet."""
        return nullcontext() if self._parallel is None else self._parallel.no_sync()


def _parallel(module: nn.Module) -> Any:
    """The module with averaged gradients. Its buffers are the same everywhere and stay so."""
    wrap = nn.parallel.DistributedDataParallel
    newer, older = "forward_sync_buffers", "broadcast_buffers"
    name = newer if newer in signature(wrap.__init__).parameters else older
    switch: dict[str, Any] = {name: False}
    return wrap(module, **switch)

"""Whether an experiment can run on its device, before a model is read: device, kernels, memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psutil

from specbench.errors import PrerequisiteError
from specbench.experiment.need import Reckoned, configured, reckon
from specbench.experiment.prepare import Prepared
from specbench.experiment.workload import Target
from specbench.models.checkpoint import require_device, require_torch
from specbench.models.host import free_memory, usable_memory
from specbench.models.shapes.read import head_sizes
from specbench.roofline.need import GIB, Need, whole_steps

ENGINES = ("native", "transformers_assisted")
"""Engines that load models into this process."""


FEWER_BITS: tuple[tuple[str, dict[str, str]], ...] = (
    ("--set target.dtype=bfloat16", {"dtype": "bfloat16"}),
    ("--set target.quant=int8", {"quant": "int8"}),
    ("--set target.dtype=bfloat16 --set target.quant=int4", {"dtype": "bfloat16", "quant": "int4"}),
)
"""Ways to store a target in less, and the keys of [target] that they change."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Of a device, in bytes; of a CPU what this process may use, swap among the total.

    ``lazy`` says that what is never written to takes nothing: a pool on a CPU may be larger than
    the machine as long as answers stay short.
    """

    name: str
    free: int
    total: int
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """What a run takes and what there is."""

    reckoned: Reckoned
    memory: Memory

    def demands(self, need: Need) -> float:
        """Bytes of a need without which nothing runs here."""
        return need.fixed if self.memory.lazy else need.sure

    def lines(self) -> Iterator[str]:
        """For the plan: what is needed, of what, and a warning where it may be too much."""
        need, memory = self.reckoned.need, self.memory
        yield (
            f"memory of {memory.name}: at least {_gib(need.sure)}, about {_gib(need.likely)} with "
            f"answers of full length, of {_gib(memory.total)} ({_gib(memory.free)} free)"
        )
        yield f"  {_parts(need)}"
        for what in self.reckoned.left_out:
            yield f"  not counted: {what}"
        if need.likely > memory.free:
            fits = min(need.most_requests(memory.free - need.logits, need.about), need.requests - 1)
            more = f"; --concurrency {fits} would fit" if fits > 0 else ""
            yield f"  warning: this may not fit into what is free{more}"

    def row(self) -> dict[str, object]:
        """The same by name, in bytes."""
        need = self.reckoned.need
        return {
            "memory_least": int(need.sure),
            "memory_about": int(need.likely),
            "memory_free": self.memory.free,
            "memory_total": self.memory.total,
        }


def require_room(prepared: Prepared) -> Room | None:
    """Check device, kernels and memory; None where there is nothing to be said of memory.

    Raises:
        UsageError: not a device name, or keys of [target] that exclude each other.
        PrerequisiteError: the device cannot be used, the attention back end has no kernels, there
            are no graphs, or the memory is too small for what is needed in any case.
    """
    experiment = prepared.experiment
    if experiment.engine not in ENGINES:
        return None
    torch = require_torch()
    device = require_device(torch, experiment.target.device)
    if experiment.engine != "native":
        return None
    _require_attention(torch, device, prepared)
    _require_forwards(device, experiment.target)
    memory, reckoned = memory_of(torch, device), reckon(prepared)
    if memory is None or reckoned is None:
        return None
    room = Room(reckoned, memory)
    if room.demands(reckoned.need) > memory.total:
        raise _too_little(prepared, room)
    return room


def memory_of(torch: Any, device: Any) -> Memory | None:
    """The memory of a device; None where torch does not tell."""
    if device.type == "cpu":
        total = usable_memory() + psutil.swap_memory().total
        return Memory("the CPU", free_memory(), total, lazy=True)
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return Memory(f"{device} ({torch.cuda.get_device_name(device)})", free, total)


def _require_attention(torch: Any, device: Any, prepared: Prepared) -> None:
    """FlashInfer's demands on device and target; what drafts is looked at when it is loaded."""
    target = prepared.experiment.target
    if target.attention != "flashinfer":
        return
    from specbench.models.attention.flashinfer import require_flashinfer, require_kernels

    require_flashinfer(device)
    try:
        found = configured(target.model, target.revision)
        sizes = head_sizes(found.config, target.model)
    except PrerequisiteError:
        return
    require_kernels(target.model, sizes, getattr(torch, target.dtype))


def _require_forwards(device: Any, target: Target) -> None:
    """What captured and shared forwards demand; UsageError where one excludes the other."""
    from specbench.models.graphs.captured import graphs_on
    from specbench.models.parallel.group import required

    required(target.model_dump())
    if target.graphs:
        graphs_on(device)


def _too_little(prepared: Prepared, room: Room) -> PrerequisiteError:
    need, memory = room.reckoned.need, room.memory
    found = f"too little memory on {memory.name}: at least {_gib(room.demands(need))} are needed, "
    found += f"and it has {_gib(memory.total)}; {_parts(need)}"
    return PrerequisiteError(found, _ways(prepared, room))


def _ways(prepared: Prepared, room: Room) -> str:
    """What would fit: fewer requests, shorter answers, fewer bits."""
    need, total = room.reckoned.need, room.memory.total
    fits = []
    if (fewer := min(need.most_requests(total, need.least), need.requests - 1)) > 0:
        fits.append(f"--concurrency {fewer}")
    if 0 < (answer := need.answer - whole_steps(need.least) + need.most_rows(total)) < need.answer:
        fits.append(f"--max-new-tokens {answer}")
    target = prepared.experiment.target
    for words, changed in FEWER_BITS:
        other = reckon(prepared, target.model_copy(update=changed))
        if other is not None and room.demands(other.need) < min(total, room.demands(need)):
            fits.append(f"{words} ({_gib(room.demands(other.need))})")
    if fits:
        return f"what would fit: {', or '.join(fits)}"
    return "it does not fit in fewer bits either: name a smaller model or a larger device"


def _parts(need: Need) -> str:
    return ", ".join(f"{name} {_gib(size)}" for name, size in need.parts())


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB" if size >= GIB / 10 else f"{size / 2**20:.1f} MiB"

"""Recording what a function does on the device, to do it again without the host.

Source: CUDA graphs as PyTorch offers them (``torch.cuda.CUDAGraph``): the function runs a few times
on a side stream, then once more while its kernels are recorded and not run. Host values are baked
in; tensors are read and written where they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Outputs = tuple[Tensor, ...]
Replay = Callable[[], Outputs]
"""Does it again; the outputs are the same tensors each time."""
Record = Callable[[Callable[[], Outputs]], Replay]
"""Records a function of no arguments."""

WARM_UPS = 2
"""Runs before a recording: kernels are chosen, compiled and given their workspaces in the first."""


class CudaRecorder:
    """Records graphs that share one pool of memory, as they never run at the same time.

    Args:
        device: where the function's kernels run. Streams of another device would record nothing,
            and a replay would hand out what the recording left.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._memory: Any = None

    def __call__(self, function: Callable[[], Outputs]) -> Replay:
        """Record. RuntimeError where the function does what a graph cannot."""
        with torch.cuda.device(self._device):
            return self._record(function)

    def _record(self, function: Callable[[], Outputs]) -> Replay:
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UPS):
                function()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._memory):
            outputs = function()
        self._memory = graph.pool()

        def replay() -> Outputs:
            graph.replay()
            return outputs

        return replay

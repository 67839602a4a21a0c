"""A device without values, and what the host sends to it.

Meta tensors know their shape and hold nothing: what the host would have to wait for cannot be read.
"""

import sys

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

DEVICE = torch.device("meta")


class Queued(TorchFunctionMode):
    """Refuses what sends host values to the device in any way but by ``transfer.to_device``.

    Args:
        sends: whether even that is allowed; in a captured function it is not.
    """

    def __init__(self, sends=True):
        super().__init__()
        self._sends = sends

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor):
            assert torch.device(kwargs.get("device") or "cpu") != DEVICE, "a list was sent"
        if func is Tensor.to and args[0].device != DEVICE and DEVICE in (*args, *kwargs.values()):
            assert self._sends, "a tensor was sent"
            assert sys._getframe(1).f_code.co_name == "to_device", "a tensor was sent"
        if func in (Tensor.__getitem__, Tensor.__setitem__) and args[0].device == DEVICE:
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            assert not any(isinstance(part, list) for part in index), "a list is an index"
            on_host = [part for part in index if isinstance(part, Tensor) and part.dim()]
            assert all(part.device == DEVICE for part in on_host), "an index was sent"
        return func(*args, **kwargs)

"""Records as a CUDA graph does, on the CPU: what a function does to tensors, once and for all.

A replay repeats the kernels: it bakes in whatever was a number on the host, reads static tensors
where they are, repeats writes to them, and leaves its results where the recorded ones were.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class AgainRecorder:
    """``graphs.record.Record`` that does everything again, host and all."""

    def __init__(self):
        self.records = self.replays = 0

    def __call__(self, function):
        self.records += 1

        def replay():
            self.replays += 1
            return function()

        return replay


def now(given, made):
    """An argument of a kernel with the tensors of this replay in it."""
    if isinstance(given, list | tuple):
        return type(given)(now(one, made) for one in given)
    return made.get(id(given), given) if isinstance(given, torch.Tensor) else given


class Tape(TorchDispatchMode):
    """Kernels with what they were given and gave; it keeps all of these tensors."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, kernel, types, args=(), kwargs=None):
        found = kernel(*args, **(kwargs or {}))
        self.calls.append((kernel, args, kwargs or {}, found))
        return found

    @torch.inference_mode()
    def play(self, results):
        """Repeat, and write over the tensors among ``results``."""
        made = {}
        for kernel, args, kwargs, before in self.calls:
            found = kernel(
                *(now(one, made) for one in args),
                **{name: now(one, made) for name, one in kwargs.items()},
            )
            if isinstance(found, torch.Tensor):
                made[id(before)] = found
            else:
                made |= zip(map(id, tree_leaves(before)), tree_leaves(found), strict=True)
        for one in tree_leaves(results):
            if isinstance(one, torch.Tensor) and id(one) in made:
                one.copy_(made[id(one)])


class TracedRecorder:
    """``graphs.record.Record`` that counts.

    Attributes:
        records, replays: how often.
        fails: raise instead, as a capture does that hits what a graph cannot hold.
    """

    def __init__(self, fails=False):
        self.records = self.replays = 0
        self.fails = fails

    def __call__(self, function):
        if self.fails:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.records += 1
        with Tape() as tape:
            results = function()

        def replay():
            self.replays += 1
            tape.play(results)
            return results

        return replay

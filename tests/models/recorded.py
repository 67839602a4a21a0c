"""Records as a CUDA graph does, on the CPU: what a function does to tensors, once and for all.

Tracing with real values bakes in whatever was a number on the host, reads static tensors where they
are and repeats writes to them.
"""

from torch.fx.experimental.proxy_tensor import make_fx


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
        traced = make_fx(function)()

        def replay():
            self.replays += 1
            return traced()

        return replay

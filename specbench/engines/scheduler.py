"""Continuous batching: prefill or decode ticks, never mixed, for ``concurrency`` live requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from specbench.core.request import Request
from specbench.core.trace import Finish
from specbench.decoding.loop import DecodeLoop
from specbench.decoding.sequence import Sequence as DecodedSequence

OUT_OF_MEMORY = "out of memory"


def serve(
    loop: DecodeLoop,
    requests: Sequence[Request],
    concurrency: int,
    admit: Callable[[Request], DecodedSequence],
    release: Callable[[Sequence[DecodedSequence]], None],
) -> Iterator[DecodedSequence]:
    """Decode requests in order and yield each when it ends.

    Args:
        loop: decodes batches.
        requests: in the order of admission.
        concurrency: requests alive at the same time.
        admit: makes a sequence and starts its clock.
        release: frees what sequences hold; called before they are yielded.
    """
    waiting = deque(requests)
    active: list[DecodedSequence] = []
    try:
        while waiting or active:
            batch, run = active, loop.step
            if waiting and len(active) < concurrency:
                batch, run = [], loop.prefill
                while waiting and len(active) < concurrency:
                    batch.append(admit(waiting.popleft()))
                    active.append(batch[-1])
            try:
                run(batch)
            except (RuntimeError, MemoryError, ValueError, IndexError) as error:
                for row in batch:
                    _fail(row, error)
            ended = [row for row in active if row.finish is not None]
            if ended:
                active = [row for row in active if row.finish is None]
                release(ended)
                yield from ended
    finally:
        # A caller that stops listening must not keep the slabs of the requests it left behind.
        release(active)


def _fail(row: DecodedSequence, error: Exception) -> None:
    """End a request with the reason; tokens it had stay in its trace, and it is not averaged."""
    memory = isinstance(error, MemoryError) or OUT_OF_MEMORY in str(error).lower()
    row.finish = Finish.OOM if memory else Finish.ERROR
    row.trace.finish = row.finish
    first_line = (str(error).strip() or "no message").splitlines()[0]
    row.trace.error = f"{type(error).__name__}: {first_line}"

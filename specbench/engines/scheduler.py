"""Continuous batching: prefill or decode ticks, never mixed, for ``concurrency`` live requests."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from specbench.core.full_memory import out_of_memory
from specbench.core.request import Request
from specbench.core.trace import Finish
from specbench.decoding.loop import DecodeLoop
from specbench.decoding.rows import BrokenRowsError
from specbench.decoding.sequence import Sequence as DecodedSequence

FAILURES = (RuntimeError, MemoryError, ValueError, IndexError)
"""What a forward or a draw raises for bad input, bad numbers or full memory."""


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
            fresh = []
            while waiting and len(active) < concurrency:
                fresh.append(admit(waiting.popleft()))
                active.append(fresh[-1])
            if fresh:
                _prefill(loop, fresh)
            else:
                _step(loop, active)
            ended = [row for row in active if row.finish is not None]
            if ended:
                active = [row for row in active if row.finish is None]
                release(ended)
                yield from ended
    finally:
        # A caller that stops listening must not keep the slabs of the requests it left behind.
        release(active)


def _prefill(loop: DecodeLoop, rows: Sequence[DecodedSequence]) -> None:
    """Prefill together; where that fails, one by one, so that only the culprit is lost."""
    try:
        loop.prefill(rows)
    except FAILURES as error:
        if len(rows) == 1 or any(row.trace.output_ids for row in rows):
            for row in rows:
                _fail(row, error)
            return
        for row in rows:
            _prefill(loop, [row])


def _step(loop: DecodeLoop, rows: Sequence[DecodedSequence]) -> None:
    """One step of all rows; most failures inside it cannot be laid at one row's door."""
    try:
        loop.step(rows)
    except BrokenRowsError as error:
        # Nothing was committed: the other rows take this step again, with the same numbers.
        for place in error.requests:
            _fail(rows[place], error)
    except FAILURES as error:
        for row in rows:
            _fail(row, error)


def _fail(row: DecodedSequence, error: Exception) -> None:
    """End a request with the reason; tokens it had stay in its trace, and it is not averaged."""
    row.finish = Finish.OOM if out_of_memory(error) else Finish.ERROR
    row.trace.finish = row.finish
    first_line = (str(error).strip() or "no message").splitlines()[0]
    row.trace.error = f"{type(error).__name__}: {first_line}"

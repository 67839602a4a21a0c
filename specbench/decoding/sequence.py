"""One request while it is being decoded."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from specbench.core.request import Request
from specbench.core.trace import Finish, Trace
from specbench.decoding.stops import StopChecker


@dataclass(slots=True, eq=False)
class Sequence:
    """Prompt plus committed tokens of one request, with what the loop keeps about it.

    Attributes:
        request: what was asked.
        slab: index of its KV storage, given by the pool.
        trace: what happened so far.
        stops: where the output ends.
        step: index of the next decode step; it keys the random streams.
        finish: set when the output ended.
        rule_state: what the acceptance rule carries over steps.
    """

    request: Request
    slab: int
    trace: Trace
    stops: StopChecker
    step: int = 0
    finish: Finish | None = None
    rule_state: object = None
    _buffer: npt.NDArray[np.int64] = field(init=False)
    length: int = field(init=False)

    def __post_init__(self) -> None:
        prompt = np.asarray(self.request.token_ids, dtype=np.int64)
        self.length = len(prompt)
        self._buffer = np.empty(self.length + max(self.stops.cap, 0) + 1, dtype=np.int64)
        self._buffer[: self.length] = prompt

    @property
    def tokens(self) -> npt.NDArray[np.int64]:
        """Prompt and committed output, int64 [length]; a view, not to be written."""
        return self._buffer[: self.length]

    @property
    def prompt_length(self) -> int:
        """Tokens of the prompt."""
        return len(self.request.token_ids)

    @property
    def remaining(self) -> int:
        """Tokens that may still be committed before the length cap."""
        return self.stops.cap - (self.length - self.prompt_length)

    def append(self, token_id: int) -> Finish | None:
        """Commit one token; returns the finish reason if the output ends with it."""
        self._buffer[self.length] = token_id
        self.length += 1
        self.trace.output_ids.append(token_id)
        self.finish = self.stops.push(token_id)
        return self.finish

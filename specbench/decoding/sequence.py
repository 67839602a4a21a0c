"""One request while it is being decoded."""

from __future__ import annotations

from collections.abc import Sequence as Tokens
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor

from specbench.core.request import Request
from specbench.core.trace import Finish, Trace
from specbench.decoding.stops import StopChecker


class Steering(Protocol):
    """Says what is drafted in a drafter's stead: replay forces recorded tokens, tests plant some.

    ``path`` holds the tokens drafted so far on the way to the place.
    """

    def row(self, path: Tokens, logits: Tensor) -> Tensor:
        """The draft's logits [V] behind ``path``, as they are or others; a law like any other."""
        ...

    def token(self, path: Tokens) -> int | None:
        """The token of a chain behind ``path``, whatever its law says; None = as drawn."""
        ...


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
        steering: what is drafted instead of what the drafter would; None in every run.
    """

    request: Request
    slab: int
    trace: Trace
    stops: StopChecker
    step: int = 0
    finish: Finish | None = None
    rule_state: object = None
    steering: Steering | None = None
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

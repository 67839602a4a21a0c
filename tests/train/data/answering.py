"""A target that answers from a script, and a disk with little room."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from specbench.core.prompt import RenderedPrompt
from specbench.core.request import Request, Stops
from specbench.core.trace import Finish, Granularity, Trace

END = 0
Said = tuple[str, Finish] | tuple[list[int], Finish]


class FakeTarget:
    """Ids are code points. ``says`` gives text (or ids) and finish for each request.

    ``asked`` holds all requests, ``opened`` counts calls of ``open``.
    """

    def __init__(self, says: Callable[[Request], Said], template: str = "<{role}>{text}</>"):
        self.says = says
        self.template = template
        self.asked: list[Request] = []
        self.batches: list[int] = []
        self.opened = 0

    def open(self) -> FakeTarget:
        self.opened += 1
        return self

    @property
    def names(self) -> list[str]:
        return [request.key.item for request in self.asked]

    def render(self, messages: Sequence) -> RenderedPrompt:
        text = "".join(self.template.format(role=m["role"][0], text=m["content"]) for m in messages)
        return RenderedPrompt(self.encode(text), text, sha256(text.encode()).hexdigest(), "toy")

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(map(ord, text))

    def stops(self) -> Stops:
        return Stops((END,))

    def run(self, requests: Sequence[Request], batch: int) -> Iterator[Trace]:
        self.batches.append(batch)
        for request in requests:
            self.asked.append(request)
            said, finish = self.says(request)
            text = said if isinstance(said, str) else ""
            yield Trace(
                key=request.key,
                arm="plain",
                concurrency=batch,
                unit="",
                granularity=Granularity.STEP,
                seed=request.seed,
                prompt_tokens=len(request.token_ids),
                prompt_hash="",
                start_ns=0,
                output_ids=list(map(ord, said)) if text else list(said),
                text=text,
                finish=finish,
                error="RuntimeError: no room" if finish in (Finish.OOM, Finish.ERROR) else "",
            )


def never() -> FakeTarget:
    """In place of ``FakeTarget.open`` where nothing may be asked."""
    raise AssertionError("the target was opened")


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file can grow beyond ``size`` bytes: a write that would takes what fits and then fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def ids_of(path: Path) -> list[str]:
    """Ids of the records in a file, in order."""
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]

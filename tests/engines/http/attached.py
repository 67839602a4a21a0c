"""Engines attached to fake servers, and requests for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from specbench.core.arm import ArmSpec
from specbench.core.request import Limits, Request, RequestKey, Sampling, Stops
from specbench.core.trace import Trace
from specbench.engines.http.dialects.openai import DIALECT as OPENAI
from specbench.engines.http.engine import HttpEngine
from tests.engines.fake_server import FakeServer

ARM = "plain"


def request(
    number=0, said="cat dog", *, ids=(), limit=8, seed=1, strings=(), ends=(), **sampling
) -> Request:
    """Item ``number``; ``said`` is the user's message, ``ids`` the rendered prompt."""
    return Request(
        key=RequestKey("suite", str(number), 0, sampling.get("temperature", 0.0), 0),
        token_ids=tuple(ids),
        sampling=Sampling(**sampling),
        limits=Limits(limit),
        stops=Stops(tuple(ends), tuple(strings)),
        seed=seed,
        messages=({"role": "user", "content": said},),
    )


def numbered(count, **changes) -> list[Request]:
    """``count`` requests that differ in their item alone."""
    return [request(number, **changes) for number in range(count)]


@contextmanager
def attached(
    server: FakeServer,
    dialect=OPENAI,
    *,
    concurrency=1,
    arrival=None,
    metrics_urls=(),
    arms=None,
    **options,
) -> Iterator[HttpEngine]:
    """An engine on this server whose arm has begun; ``options`` go into the [server] table."""
    attach: dict[str, object] = {"url": server.url}
    if metrics_urls:
        attach["metrics_urls"] = list(metrics_urls)
    settings = {
        "arrival": arrival or {"kind": "closed", "rate": None},
        "concurrency": concurrency,
        "max_new_tokens": 8,
        "seed": 1,
        "server": {"route": "chat", "probes": False, **options},
        "system_policy": "fail",
    }
    arms = arms or [ArmSpec(ARM, engine=dialect.name, server=attach)]
    engine = HttpEngine(settings, arms, dialect, None)
    try:
        engine.begin([arm.name for arm in arms], 0)
        yield engine
        engine.end()
    finally:
        engine.close()


def decode(
    server: FakeServer, requests: Sequence[Request], dialect=OPENAI, *, concurrency=1, **options
) -> list[Trace]:
    """Traces in order of their items."""
    with attached(server, dialect, concurrency=concurrency, **options) as engine:
        traces = list(engine.run(ARM, requests, concurrency))
    assert len(traces) == len(requests)
    return sorted(traces, key=lambda trace: int(trace.key.item))

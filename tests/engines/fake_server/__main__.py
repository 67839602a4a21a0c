"""The load script as a process of its own: prints its address, then waits until stdin closes.

At its end it prints one JSON document: ``requests`` in order of arrival, each with ``number`` and
``fault`` (see ``load``), monotonic ns of its token ``writes``, the ns from the request to each of
them in the ``script``, their ``lateness`` against that in ns, all its ``bytes`` and ``events``; and
``peak``, most requests in flight.
"""

from __future__ import annotations

import argparse
import json
import sys

from tests.engines.fake_server.answer import Received
from tests.engines.fake_server.load import LoadScript, Pace, asked_for
from tests.engines.fake_server.server import FakeServer
from tests.engines.fake_server.wire import Wrote


def report(received: Received, wrote: list[Wrote], script: LoadScript) -> dict[str, object]:
    """What was written for one request; only events that carry a token."""
    number, fault = asked_for(received.body)
    planned = [int(at_s * 1e9) for at_s, _ in script(received).writes]
    tokens = [
        (at_ns, due_ns)
        for (at_ns, data), due_ns in zip(wrote, planned, strict=False)
        if b'"content": " ' in data
    ]
    return {
        "number": number,
        "fault": fault,
        "writes": [at_ns for at_ns, _ in tokens],
        "script": [due_ns for _, due_ns in tokens],
        "lateness": [at_ns - received.t_ns - due_ns for at_ns, due_ns in tokens],
        "bytes": sum(len(data) for _, data in wrote),
        "events": sum(data.count(b"data: ") for _, data in wrote),
    }


def main() -> None:
    """Serve until stdin closes."""
    parser = argparse.ArgumentParser()
    for name, kind in (("tokens", int), ("first_s", float), ("gap_s", float)):
        parser.add_argument(f"--{name}", type=kind, default=getattr(Pace(), name))
    given = parser.parse_args()
    script = LoadScript(Pace(given.tokens, given.first_s, given.gap_s))
    with FakeServer(script) as server:
        print(server.url, flush=True)
        sys.stdin.read()
        pairs = zip(server.received, server.writes, strict=True)
        requests = [report(received, wrote, script) for received, wrote in pairs]
        peak = server.peak
    json.dump({"requests": requests, "peak": peak}, sys.stdout)


if __name__ == "__main__":
    main()

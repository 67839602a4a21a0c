"""Put the HTTP client under load with faults and compare what it measured with what was written.

A scripted server in a process of its own streams answers; a share of them is refused, stalls, ends
half-way, reports an error after 200, or is reset. Both processes read the same monotonic clock.
Exit 1 where a request is lost or counted twice, a fault lands as something else, or a latency is
off by more than the limits below. See docs/engines.md.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

from specbench.core.arm import ArmSpec
from specbench.core.request import Limits, Request, RequestKey, Sampling, Stops
from specbench.core.trace import Trace
from specbench.engines.http.dialects.openai import DIALECT
from specbench.engines.http.engine import HttpEngine

ROOT = Path(__file__).resolve().parents[1]
FAULTS: Mapping[str, str] = {
    "refused": "503",
    "stalled": "no bytes for",
    "cut": "ended too early",
    "error": "the engine died",
    "reset": "the connection broke",
}
"""Fault that a prompt asks the server for -> what the trace must say about it."""
MEDIAN_MS, P99_MS = 2.0, 10.0
"""Limits on how much later than written an arrival may be stamped."""
IDLE_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class Load:
    """One load.

    Attributes:
        requests, concurrency: how many, and how many at a time.
        rate: requests per second, in a Poisson process; None = closed loop.
        share: of the requests that asks for each kind of fault.
        tokens, first_s, gap_s: of an answer; see the server.
    """

    requests: int = 500
    concurrency: int = 64
    rate: float | None = None
    share: float = 0.05
    tokens: int = 40
    first_s: float = 0.2
    gap_s: float = 0.025
    seed: int = 1

    @property
    def faults(self) -> list[str]:
        """The fault of every request, in order of their numbers; empty = none."""
        each = round(self.share * self.requests)
        chosen = [fault for fault in FAULTS for _ in range(each)]
        chosen += [""] * (self.requests - len(chosen))
        random.Random(self.seed).shuffle(chosen)
        return chosen


@dataclass(slots=True)
class Result:
    """What one load showed; times in milliseconds.

    Attributes:
        broken: limits and accounts that do not hold; empty = all is well.
        peak: most requests in flight, as the server saw it; one that the client gave up counts
            until the server has noticed.
        ttft_error, arrival_error: median, 99th percentile and maximum of (stamp of the client -
            moment of the write), over first tokens and over all tokens of whole answers.
        script_error: the same of (stamp - start of the request - script), over all tokens: it holds
            sending, the server's own lateness and stamping.
        lateness: the same of (moment of the write - script), which is the server's own.
        waiting: the same of (sent - due), the queue before the client in an open loop.
        client_cpu, server_cpu: processor time by wall time; 1.0 = one core.
        load_average, cores: of the machine over the minute before the end; what else runs on it
            makes stamps late as well.
    """

    load: Load
    broken: list[str] = field(default_factory=list)
    ok: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    peak: int = 0
    wall_s: float = 0.0
    ttft_error: list[float] = field(default_factory=list)
    arrival_error: list[float] = field(default_factory=list)
    script_error: list[float] = field(default_factory=list)
    lateness: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    client_cpu: float = 0.0
    server_cpu: float = 0.0
    events_per_s: float = 0.0
    bytes_per_s: float = 0.0
    load_average: float = 0.0
    cores: int = 0


class Server:
    """The scripted server as a child process; ``stop`` ends it and gives its log."""

    def __init__(self, load: Load) -> None:
        command = [sys.executable, "-m", "tests.engines.fake_server"]
        command += [f"--tokens={load.tokens}", f"--first_s={load.first_s}", f"--gap_s={load.gap_s}"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    def stop(self) -> dict[str, Any]:
        """Its log; see the server."""
        text, _ = self._process.communicate()
        log: dict[str, Any] = json.loads(text)
        return log


def requests(load: Load) -> list[Request]:
    """One request per number; its prompt names the number and the fault."""
    return [_request(load, number, fault) for number, fault in enumerate(load.faults)]


def _request(load: Load, number: int, fault: str) -> Request:
    return Request(
        key=RequestKey("load", str(number), 0, 0.0, 0),
        token_ids=(),
        sampling=Sampling(),
        limits=Limits(load.tokens),
        stops=Stops(),
        seed=number,
        messages=({"role": "user", "content": f"{number} {fault or 'none'}"},),
    )


def settings(load: Load) -> dict[str, object]:
    """What the engine's factory gets."""
    arrival = {"kind": "closed" if load.rate is None else "poisson", "rate": load.rate}
    server = {"route": "chat", "probes": False, "idle_timeout_s": IDLE_TIMEOUT_S}
    return {
        "arrival": arrival,
        "concurrency": load.concurrency,
        "max_new_tokens": load.tokens,
        "seed": load.seed,
        "server": server,
        "system_policy": "fail",
    }


def measure(load: Load) -> tuple[Result, list[Trace], dict[str, Any]]:
    """Run one load; what it showed, the traces and the server's log.

    One request per place warms up connections; their numbers lie behind those that count.
    """
    before = _cpu(resource.RUSAGE_CHILDREN)
    server = Server(load)
    arm = ArmSpec("plain", engine="openai", server={"url": server.url})
    engine = HttpEngine(settings(load), [arm], DIALECT, None)
    try:
        engine.begin(["plain"], 0)
        behind = range(load.requests, load.requests + load.concurrency)
        warm = [_request(load, number, "") for number in behind]
        engine.warm_up("plain", warm, load.concurrency)
        start, start_cpu = time.perf_counter(), _cpu(resource.RUSAGE_SELF)
        traces = list(engine.run("plain", requests(load), load.concurrency))
        result = Result(load, wall_s=time.perf_counter() - start)
        result.client_cpu = (_cpu(resource.RUSAGE_SELF) - start_cpu) / result.wall_s
        engine.end()
    finally:
        engine.close()
        log = server.stop()
    log["requests"] = [one for one in log["requests"] if one["number"] < load.requests]
    result.load_average, result.cores = os.getloadavg()[0], os.cpu_count() or 1
    result.server_cpu = (_cpu(resource.RUSAGE_CHILDREN) - before) / result.wall_s
    return result, traces, log


def _cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def account(load: Load, traces: Sequence[Trace], log: Mapping[str, Any]) -> list[str]:
    """What is wrong with the accounts: lost or doubled requests, faults that became others."""
    wrong: list[str] = []
    expected = Counter(range(load.requests))
    for name, seen in (
        ("traces", Counter(int(trace.key.item) for trace in traces)),
        ("requests at the server", Counter(one["number"] for one in log["requests"])),
    ):
        if seen != expected:
            wrong.append(f"{name}: missing {expected - seen}, too many {seen - expected}")
    faults = load.faults
    for trace in traces:
        fault = faults[int(trace.key.item)]
        if fault and (trace.ok or FAULTS[fault] not in trace.error):
            wrong.append(f"{trace.key.item}: {fault} became {trace.finish} {trace.error!r}")
        if not fault and not (trace.ok and sum(trace.arrivals.tokens) == load.tokens):
            told = f"{trace.finish} {trace.error!r}, {sum(trace.arrivals.tokens)} tokens"
            wrong.append(f"{trace.key.item}: a whole answer became {told}")
        if trace.attempts != 1:
            wrong.append(f"{trace.key.item}: sent {trace.attempts} times without leave")
    return wrong


def judge(result: Result, traces: Sequence[Trace], log: Mapping[str, Any]) -> None:
    """Fill in the counts and latencies, and what is broken."""
    load, faults = result.load, result.load.faults
    result.broken = account(load, traces, log)
    result.ok = sum(trace.ok for trace in traces)
    result.failed = dict(Counter(faults[int(t.key.item)] or "none" for t in traces if not t.ok))
    result.peak = log["peak"]
    written = {one["number"]: one for one in log["requests"]}
    errors: list[list[float]] = []
    against: list[float] = []
    for trace in traces:
        one = written[int(trace.key.item)]
        writes = one["writes"]
        if trace.ok and len(writes) == len(trace.arrivals):
            pairs = zip(trace.arrivals.t_ns, writes, strict=True)
            errors.append([(seen - wrote) * 1e-6 for seen, wrote in pairs])
            planned = zip(trace.arrivals.t_ns, one["script"], strict=True)
            against += [(seen - trace.start_ns - due) * 1e-6 for seen, due in planned]
        elif trace.ok:
            told = f"{len(trace.arrivals)} arrivals of {len(writes)} writes"
            result.broken.append(f"{trace.key.item}: {told}")
    if not errors:
        result.broken.append("no answer was whole, so that there are no latencies")
        return
    result.ttft_error = spread([line[0] for line in errors])
    result.arrival_error = spread([one for line in errors for one in line])
    result.script_error = spread(against)
    result.lateness = spread([one * 1e-6 for got in log["requests"] for one in got["lateness"]])
    result.waiting = spread(
        [((trace.sent_ns or trace.start_ns) - trace.start_ns) * 1e-6 for trace in traces]
    )
    result.events_per_s = sum(one["events"] for one in log["requests"]) / result.wall_s
    result.bytes_per_s = sum(one["bytes"] for one in log["requests"]) / result.wall_s
    for name in ("ttft_error", "arrival_error", "script_error"):
        median, p99, _ = getattr(result, name)
        if median > MEDIAN_MS or p99 > P99_MS:
            told = f"median {median:.2f} ms, p99 {p99:.2f} ms"
            result.broken.append(f"{name}: {told}; limits {MEDIAN_MS} and {P99_MS}")


def spread(values: Sequence[float]) -> list[float]:
    """Median, 99th percentile and maximum."""
    return [float(np.quantile(values, q)) for q in (0.5, 0.99, 1.0)]


def say(result: Result) -> None:
    """A block of lines for people."""
    load = result.load
    kind = "closed loop" if load.rate is None else f"Poisson, {load.rate:g} requests/s"
    failed = ", ".join(f"{n} {fault}" for fault, n in sorted(result.failed.items()))
    click.echo(f"{kind}: {load.requests} requests, at most {load.concurrency} at a time")
    click.echo(f"  whole {result.ok}; failed as asked: {failed}; peak {result.peak}")
    for name in ("ttft_error", "arrival_error", "script_error", "lateness", "waiting"):
        if not getattr(result, name):
            continue
        median, p99, most = getattr(result, name)
        title = name.replace("_", " ")
        click.echo(f"  {title:<14} median {median:8.2f} ms  p99 {p99:8.2f} ms  max {most:8.2f} ms")
    click.echo(
        f"  {result.wall_s:.1f} s, {result.events_per_s:.0f} events/s, "
        f"{result.bytes_per_s / 1e6:.2f} MB/s; CPU: client {result.client_cpu:.0%}, "
        f"server {result.server_cpu:.0%} of a core"
    )
    for line in result.broken:
        click.echo(f"  BROKEN {line}")
    if result.broken and result.load_average > result.cores:
        click.echo(
            f"  other work runs here (load average {result.load_average:.1f} on {result.cores} "
            "cores): repeat when the machine is quiet, or type: chrt -f 10 "
            ".venv/bin/python scripts/load_test.py"
        )


@click.command()
@click.option("--requests", "count", default=500, show_default=True)
@click.option("--concurrency", default=64, show_default=True)
@click.option("--rate", default=40.0, show_default=True, help="Of the Poisson load, per second.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document instead of lines.")
def main(count: int, concurrency: int, rate: float, as_json: bool) -> None:
    """Closed loop, then Poisson arrivals, with 5 % faults of each of five kinds."""
    results = []
    for load in (Load(count, concurrency), Load(count, concurrency, rate)):
        result, traces, log = measure(load)
        judge(result, traces, log)
        results.append(result)
        if not as_json:
            say(result)
    if as_json:
        click.echo(json.dumps([asdict(result) for result in results], indent=2))
    sys.exit(1 if any(result.broken for result in results) else 0)


if __name__ == "__main__":
    main()

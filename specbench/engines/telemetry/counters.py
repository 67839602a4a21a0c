"""Acceptance from the counters of a server, over exactly what was measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from specbench.core.trace import Tally, Window
from specbench.engines.http.dialects.totals import tally
from specbench.engines.http.protocol import Counters
from specbench.engines.telemetry.names import NAMES, CounterNames
from specbench.engines.telemetry.prometheus import Deltas, Snapshot, deltas, snapshot
from specbench.engines.telemetry.reasons import OTHER_TRAFFIC, UNCOUNTED
from specbench.errors import SpecbenchError

POLLS = 20
PAUSE_S = 0.1
"""Servers count a request a moment after its answer; two seconds are waited at most."""

UNCHECKED = "no count of requests: other traffic cannot be told apart"

Fetch = Callable[[str], str]

_OURS = {"requests": "sent", "tokens": "received"}


def counters_for(
    engine: str,
    urls: Sequence[str],
    fetch: Fetch,
    sleep: Callable[[float], None] = time.sleep,
) -> Counters | None:
    """A reader of the counters at these addresses; None for engines whose counters say nothing.

    Args:
        engine: ``vllm``, ``sglang``, ``trtllm`` or ``llamacpp``.
        urls: one per replica; their counters are added up.
        fetch: text at an address; raises SpecbenchError where there is none.
        sleep: how to wait, in seconds.
    """
    names = NAMES.get(engine)
    if names is None or not urls:
        return None
    return PrometheusCounters(names, [_page(engine, url) for url in urls], fetch, sleep)


class PrometheusCounters:
    """See ``engines.http.protocol.Counters``."""

    def __init__(
        self,
        names: CounterNames,
        urls: Sequence[str],
        fetch: Fetch,
        sleep: Callable[[float], None],
    ) -> None:
        self._names = names
        self._urls = urls
        self._fetch = fetch
        self._sleep = sleep
        self._start: Snapshot | str = "counters were not read before the measurement"

    def before(self) -> None:
        """Remember where the counters stand, or why they cannot be read."""
        try:
            self._start = self._read()
        except (SpecbenchError, ValueError) as error:
            self._start = f"counters cannot be read: {error}"

    def after(self, sent: int, tokens: int | None = None) -> Window:
        """What was counted since; without a tally where that is not what was sent.

        Args:
            sent: requests that were sent and answered.
            tokens: output tokens of their answers, that of each prefill included; compared where
                the server does not count requests. None leaves such counters unchecked.
        """
        if isinstance(self._start, str):
            return Window(sent, None, self._start)
        try:
            grown = self._settled(self._start, sent, tokens)
        except SpecbenchError as error:
            return Window(sent, None, f"counters cannot be read: {error}")
        except ValueError as error:
            return Window(sent, None, str(error))
        if not any(name in grown.totals for name in self._names.speculation):
            return Window(sent, None, "counters not exposed: the server counts no speculation")
        unit, counted, expected = self._compared(grown, sent, tokens)
        checked = counted is not None and expected is not None
        if not checked and self._names.requests:
            return Window(sent, None, "the server does not count requests: traffic is unchecked")
        if counted is not None and expected is not None and counted != expected:
            why = OTHER_TRAFFIC if counted > expected else UNCOUNTED
            return Window(sent, None, f"{why}: {counted} {unit} counted, {expected} {_OURS[unit]}")
        return Window(sent, self._tally(grown, sent, checked))

    def _compared(
        self, grown: Deltas, sent: int, tokens: int | None
    ) -> tuple[str, int | None, int | None]:
        """What tells our traffic from that of others: its unit, what was counted, what is ours."""
        counted = _pick(grown, self._names.requests)
        if counted is not None:
            return "requests", counted, sent
        return "tokens", _pick(grown, self._names.tokens), tokens

    def _tally(self, grown: Deltas, sent: int, checked: bool) -> Tally:
        names = self._names
        notes = (names.note, "" if checked else UNCHECKED)
        positions = [
            grown.by_position[name] for name in names.accepted_at if name in grown.by_position
        ]
        at = positions[0] if positions else {}
        return tally(
            f"counters at {', '.join(self._urls)}",
            "; ".join(filter(None, notes)),
            tokens=_pick(grown, names.tokens),
            requests=sent,
            drafted_steps=_pick(grown, names.drafts),
            verified=_pick(grown, names.drafted),
            accepted=_pick(grown, names.accepted),
            accepted_at=[at.get(position, 0) for position in range(max(at, default=-1) + 1)],
        )

    def _settled(self, start: Snapshot, sent: int, tokens: int | None) -> Deltas:
        """The growth once all that was sent is counted, or after the longest wait."""
        grown = deltas(start, self._read())
        for _ in range(POLLS):
            _, counted, expected = self._compared(grown, sent, tokens)
            if counted is None or expected is None or counted >= expected:
                break
            self._sleep(PAUSE_S)
            grown = deltas(start, self._read())
        return grown

    def _read(self) -> Snapshot:
        return snapshot({url: self._fetch(url) for url in self._urls}, self._names.every)


def _page(engine: str, url: str) -> str:
    """The page in Prometheus format; TensorRT-LLM's ``/metrics`` is another one, and emptied."""
    if engine == "trtllm" and not url.endswith("/prometheus/metrics"):
        return url.removesuffix("/").removesuffix("/metrics") + "/prometheus/metrics"
    return url


def _pick(grown: Deltas, names: Sequence[str]) -> int | None:
    """Growth of the first of these counters that exists."""
    return next((grown.totals[name] for name in names if name in grown.totals), None)

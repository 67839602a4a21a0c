"""The requests that a window of counters covers."""

from __future__ import annotations

from dataclasses import dataclass

from specbench.core.trace import Counted, Trace, Window
from specbench.engines.http.protocol import Counters


@dataclass(slots=True)
class Covered:
    """What came of the requests of one window.

    Attributes:
        sent: that reached the network; the others never touched a counter.
        tokens: output tokens of the answers; None where some are estimated.
        failed: the first reason why one that was sent has no answer; empty where all have.
    """

    sent: int = 0
    tokens: int | None = 0
    failed: str = ""

    def add(self, trace: Trace) -> None:
        """One request is over."""
        if not trace.attempts:
            return
        self.sent += 1
        if not trace.ok:
            self.failed = self.failed or trace.error or str(trace.finish)
        if trace.counted is Counted.ESTIMATED:
            self.tokens = None
        elif self.tokens is not None:
            self.tokens += sum(trace.arrivals.tokens)

    def window(self, counters: Counters) -> Window:
        """What the counters show. A failed request may have moved them, and nobody knows by what.

        Its drafts are counted and its tokens are not ours, so such a window has no tally.
        """
        if self.failed:
            why = f"a request failed after it was sent, and may be counted in part: {self.failed}"
            return Window(self.sent, None, why)
        return counters.after(self.sent, self.tokens)

"""A plain arm that speculates: then nothing that is divided by it is a speed-up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specbench.core.arm import PLAIN
from specbench.core.trace import Tally, Trace
from specbench.measure.guards.guard import Around, Guard
from specbench.metrics.timeline import finished
from specbench.metrics.totals import tally_of


def plain_guards(plain: Sequence[Trace], around: Around) -> Iterator[Guard]:
    """Drafts in what plain's steps, totals or counters show; of plain's cell and of all beside it.

    A server that was started with speculation and is given as the plain one decodes well, and only
    its own counts tell.
    """
    kept = [trace for trace in finished(plain) if trace.arm == PLAIN]
    requests = sum(_speculates(tally_of(trace), 1) for trace in kept)
    windows = sum(_speculates(window.tally, window.sent) for window in around.plain_windows)
    seen = [f"{requests} of {len(kept)} requests"] if requests else []
    seen += [f"{windows} of {len(around.plain_windows)} stretches of counters"] if windows else []
    if seen:
        yield Guard(
            "plain_speculates",
            f"the plain server speculates: drafts in {' and in '.join(seen)}",
            "give the address of one without speculation",
        )


def _speculates(tally: Tally | None, requests: int) -> bool:
    """Drafts are told, or steps gave more than the one token that a step without a draft gives.

    Steps that come from averages may be off by one in each request.
    """
    if tally is None:
        return False
    steps, committed = tally.steps, tally.committed
    several = steps is not None and committed is not None and committed > steps + requests
    return bool(tally.verified or tally.accepted) or several

"""Feeds recorded outputs to the target once, and all drafters along them, in one batch.

The target sees a window of recorded tokens in one forward; then all requests move through it place
by place. Rows of vocabulary size live as long as their window. Finished requests make room for
waiting ones between two windows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

import torch

from specbench.decoding.protocols import Tap
from specbench.decoding.rows import BrokenRowsError
from specbench.decoding.tree import PAD, chain
from specbench.engines.drafts.driven import Driven
from specbench.engines.drafts.flight import Flight, Recording, Tracked, begin
from specbench.engines.drafts.window import Place, Window
from specbench.models.kv_pool import KVPool
from specbench.models.target import PackedTarget

SPAN = 32
"""Places that requests move through in one window, where memory allows."""
LOGITS = 2**26
"""Numbers of a window's logits at most (256 MiB in float32)."""


class ForcedPass:
    """One pass over recordings.

    Args:
        target: the target's packed forward in the decode loop's clothes.
        pool, owner: its KV; drafts keep theirs in the same pool.
        drafts: what is scored.
        ks: longest drafts, ascending.
        batch: requests at a time, at most the pool's slabs.
        vocabulary: V, for the memory of a window.
    """

    def __init__(
        self,
        target: PackedTarget,
        pool: KVPool,
        owner: str,
        drafts: Sequence[Driven],
        ks: Sequence[int],
        batch: int,
        vocabulary: int,
    ) -> None:
        self._target = target
        self._pool = pool
        self._owner = owner
        self._drafts = drafts
        self._ks = ks
        self._batch = batch
        self._span = max(1, min(SPAN, LOGITS // (vocabulary * batch)))
        taps = (tap for driven in drafts for tap in driven.drafter.taps)
        self._taps: tuple[Tap, ...] = tuple(dict.fromkeys(taps))

    def run(
        self, recordings: Sequence[Recording], moved: Callable[[int], None] = lambda tokens: None
    ) -> Iterator[Flight]:
        """Replay; each request is given back when it is over, with its result or its failure.

        ``moved`` hears after every window how many tokens were passed in it.
        """
        waiting = deque(enumerate(recordings))
        active: list[Flight] = []
        try:
            while waiting or active:
                fresh: list[Flight] = []
                while waiting and len(active) + len(fresh) < self._batch:
                    fresh.append(self._begin(*waiting.popleft()))
                self._admit(fresh)
                active += fresh
                before = sum(flight.place for flight in active)
                self._move([flight for flight in active if not flight.over])
                moved(sum(flight.place for flight in active) - before)
                ended = [flight for flight in active if flight.over]
                active = [flight for flight in active if not flight.over]
                self._release(ended)
                yield from ended
        finally:
            self._release(active)

    def _begin(self, number: int, recording: Recording) -> Flight:
        drafts = {
            driven.name: Tracked(self._ks, recording.output, driven.drafter.vocabulary, driven.cut)
            for driven in self._drafts
        }
        return begin(number, recording, self._pool.admit(recording.length), drafts)

    def _admit(self, flights: Sequence[Flight]) -> None:
        """Prefill; the first recorded token comes from there."""
        going = [flight for flight in flights if not flight.failed]
        if not going:
            return
        rows = [flight.row for flight in going]
        found, taps = self._target.prefill(rows, self._taps)
        if broken := found.broken():
            _fail(going, BrokenRowsError(broken))
            self._admit(flights)
            return
        for flight in going:
            flight.row.append(flight.recording.output[0])
        for driven in self._drafts:
            driven.drafter.admit(rows, taps)

    def _move(self, flights: Sequence[Flight]) -> None:
        """One window: a forward of the target, then place by place through all drafters."""
        if not flights:
            return
        greedy = all(flight.row.request.sampling.greedy for flight in flights)
        # Above temperature 0 a draft is judged by the rows of all places that it reaches; those
        # behind the last place of this window are computed again in the next one.
        beyond = 0 if greedy else self._ks[-1] - 1
        tokens = [flight.ahead(self._span + beyond) for flight in flights]
        window = self._window(flights, tokens)
        if window is None:
            return
        for offset in range(self._span):
            members = [b for b, flight in enumerate(flights) if not flight.over]
            if not members:
                break
            self._stand(flights, members, window, offset)

    def _window(self, flights: Sequence[Flight], tokens: Sequence[Sequence[int]]) -> Window | None:
        counts = tuple(len(line) - 1 for line in tokens)
        fed = torch.full((len(tokens), max(counts)), PAD, dtype=torch.int64)
        for b, line in enumerate(tokens):
            fed[b, : counts[b]] = torch.tensor(line[:-1])
        tree = chain(fed.to(self._pool.device), counts)
        rows, taps = self._target.verify([flight.row for flight in flights], tree, self._taps)
        if broken := rows.broken():
            _fail(flights, BrokenRowsError(broken))
            return None
        return Window(rows, taps, tokens)

    def _stand(
        self, flights: Sequence[Flight], members: list[int], window: Window, offset: int
    ) -> None:
        """All drafters at one place; then its token is committed."""
        for driven in self._drafts:
            while members:
                going = [flights[b] for b in members]
                ahead = [flight.ahead(self._ks[-1]) for flight in going]
                try:
                    driven.drive(going, Place(window, offset, members, ahead), self._ks)
                except BrokenRowsError as error:
                    # Nothing was counted: the other requests are asked again.
                    _fail(going, error)
                    members = [b for b in members if not flights[b].failed]
                    continue
                break
        for b in members:
            flight = flights[b]
            flight.foreign += window.chance(b, offset) == 0.0
            flight.row.append(flight.ahead(1)[0])
            flight.row.step += 1
            self._pool.set_length(self._owner, flight.row.slab, flight.row.length - 1)

    def _release(self, flights: Sequence[Flight]) -> None:
        for flight in flights:
            flight.land()
        for driven in self._drafts:
            driven.drafter.release([flight.row for flight in flights])
        for flight in flights:
            self._pool.release(flight.row.slab)


def _fail(flights: Sequence[Flight], error: BrokenRowsError) -> None:
    """Leave the requests out whose rows name no token."""
    for place in error.requests:
        flights[place].failed = str(error)

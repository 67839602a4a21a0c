"""One drafter, driven along recorded tokens through its own protocol, one token at a time.

Every place is entered by a step that accepted nothing, so that a drafter's state depends on the
tokens before it alone; that it does not matter how a step came there is what its refill is tested
for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from specbench.decoding.protocols import RECOVERED, Acceptance, Draft, Drafter
from specbench.decoding.tree import PAD
from specbench.engines.drafts.flight import Flight
from specbench.engines.drafts.judged import Judged, judge_forced, judge_found
from specbench.engines.drafts.steering import Recorded
from specbench.engines.drafts.window import Place
from specbench.errors import SpecbenchError

NOTHING = Judged([], [])


@dataclass(frozen=True, slots=True)
class Driven:
    """A drafter and how it is asked.

    Attributes:
        name: of the draft.
        drafter: built, its KV declared in the pool.
        cut: whether a shorter draft is the beginning of a longer one. Where it is not (lookups
            that choose by the room they have, trees), each longest draft is asked for by itself,
            at the places where a step may begin.
        dense: whether drafts are drawn from full rows above temperature 0.
    """

    name: str
    drafter: Drafter
    cut: bool
    dense: bool

    def drive(self, flights: Sequence[Flight], place: Place, ks: Sequence[int]) -> None:
        """Draft, score, and take the recorded token as a step that accepted nothing.

        Raises:
            BrokenRowsError: nothing was scored and nothing observed; ``requests`` says whose.
            SpecbenchError: a drafter that does not take the recorded tokens.
        """
        longest = ks[-1]
        rooms = {k: self._room(flights, k, k == longest) for k in ([longest] if self.cut else ks)}
        # All drafts come before the first count: a broken one leaves nothing half done.
        asked = {
            k: self._ask(flights, room, place)
            for k, room in rooms.items()
            if any(room) or k == longest
        }
        for k, room in rooms.items():
            judged = self._judged(asked[k], place) if k in asked else [NOTHING] * len(room)
            for b, flight in enumerate(flights):
                tracked = flight.drafts[self.name]
                for walk in tracked.walks.values():
                    if self.cut or walk.k == k:
                        walk.step(flight.place, judged[b].chances)
                if k == longest and room[b]:
                    tracked.look(judged[b], asked[k].tree.counts[b])
        self._observe(flights, asked[longest], place)

    def _room(self, flights: Sequence[Flight], k: int, everywhere: bool) -> list[int]:
        """The budget of decoding; 0 where no step with this longest draft begins."""
        return [
            max(0, min(k, flight.row.remaining - 1))
            if everywhere or flight.drafts[self.name].walks[k].begins(flight.place)
            else 0
            for flight in flights
        ]

    def _ask(self, flights: Sequence[Flight], room: Sequence[int], place: Place) -> Draft:
        rows = [flight.row for flight in flights]
        if not self._forced(place):
            return self.drafter.propose(rows, room)
        for row, line in zip(rows, place.ahead, strict=True):
            row.steering = Recorded(line)
        try:
            draft = self.drafter.propose(rows, room)
        finally:
            for row in rows:
                row.steering = None
        self._require_recorded(draft, place)
        return draft

    def _forced(self, place: Place) -> bool:
        """Whether recorded tokens are drafted, so that laws are those behind the record."""
        return self.dense and not place.window.greedy

    def _require_recorded(self, draft: Draft, place: Place) -> None:
        counts = draft.tree.counts
        for drafted, line, count in zip(draft.tree.ids.tolist(), place.ahead, counts, strict=True):
            known = min(count, len(line))
            if drafted[:known] != list(line[:known]):
                raise SpecbenchError(
                    f"draft {self.name} cannot be put on recorded tokens: its drafter does not "
                    "ask a request's steering",
                    "replay temperature 0 alone: --temperature 0",
                )

    def _judged(self, draft: Draft, place: Place) -> list[Judged]:
        return (judge_forced if self._forced(place) else judge_found)(draft, place)

    def _observe(self, flights: Sequence[Flight], draft: Draft, place: Place) -> None:
        tree, batch = draft.tree, len(flights)
        device = tree.ids.device
        following = torch.tensor([line[0] for line in place.ahead], device=device)
        nothing = torch.zeros(batch, dtype=torch.int64, device=device)
        path = torch.full((batch, tree.width + 1), PAD, device=device)
        acceptance = Acceptance(path, nothing, following, torch.full_like(nothing, RECOVERED))
        verified = place.verified(tree.width, device)
        rows = [flight.row for flight in flights]
        self.drafter.observe(rows, draft, verified, acceptance, place.window.taps)

"""What is left of a target row when candidates at its node fail, for all kinds of candidates.

With w the chance to keep the way to the node (1 for rules that walk top-down), target row r and
law q of the candidate that failed, relu(w r - q) is left: SpecInfer's r - q (Miao et al.
2305.09781), its form for draws without replacement (Jeon et al. 2402.14160), and the step back of
traversal verification (Weng et al. 2505.12398) are this one formula. A candidate chosen without
chance has a one-hot law, so its token alone leaves the row.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.decoding.laws import DraftLaws
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TrialKind
from specbench.verify.children import WITH_REPEATS, WITHOUT_CHANCE, Candidate, Children, entries

_CANCELLED = 0.01
"""Below it a mass found by subtraction is summed anew: what is nothing must come out as 0.

Above it the rounding of a row's sum, near 1e-7, does not matter.
"""


class Place:
    """A node on one request's way, with its candidates in order.

    Attributes:
        owner, node: request and node.
        weight: w above.
        targets: target probability of every candidate.
        mass: sum of what is left of the target row.
        draft_mass: mass of the next candidate's law over what could still be drawn from it.
        ahead: entry of the next candidate's token in ``row``.
        failed: how many candidates failed.
        rejected: whether any failed, or one could not have been drawn.
    """

    __slots__ = (
        "_gone", "_of", "_row", "ahead", "candidates", "draft_mass", "failed", "mass",
        "node", "owner", "rejected", "targets", "weight",
    )  # fmt: skip

    def __init__(
        self, owner: int, node: int, offer: Children, rows: TargetRows, weight: float = 1.0
    ) -> None:
        self.owner = owner
        self.node = node
        self.weight = weight
        # Of weight 0: lost, whatever lies behind. So is a token drawn again: its mass left before.
        self.candidates = offer.by_parent.get(node, ()) if weight > 0 else ()
        self.rejected = node in offer.refused
        self.mass = self.draft_mass = 1.0
        self.failed = 0
        self._of = rows, offer.places[node + 1]
        self._row: Tensor | None = None
        self._gone: list[int] = []
        self.targets = entries(self.row, self.candidates) if self.candidates else []
        self.ahead = self.targets[0] if self.candidates else 0.0

    @property
    def row(self) -> Tensor:
        """[V] what is left of the target row, not normalised, and never written to."""
        row = self._kept()
        return blank(row.clone()[None], [self._gone])[0] if self._gone else row

    @row.setter
    def row(self, row: Tensor) -> None:
        self._row = row

    @property
    def next(self) -> Candidate | None:
        """The candidate to try next; None where all failed."""
        return self.candidates[self.failed] if self.failed < len(self.candidates) else None

    def leave(self, row: Tensor, mass: float, share: float, ahead: float, draft: float) -> None:
        """Take over what the next candidate left: its row, and ``share`` = sum relu(w r - q).

        Nothing can be left only by rounding, or where w will be 0: then the row stays.
        """
        self.failed += 1
        self.rejected = True
        room = share + 1 - self.weight
        self.weight = share / room if room > 0 else 1.0
        self.draft_mass = draft
        if mass > 0:
            self._row, self.mass, self.ahead = row, mass, ahead
        elif self.next is not None:
            self.ahead = float(self.row[self.next.token])

    def drop(self) -> None:
        """The next candidate, chosen without chance, failed: its token alone leaves the row.

        Sums are kept on the host, so that a candidate costs no pass over the vocabulary.
        """
        left = self.mass - self.ahead
        self._gone.append(self.candidates[self.failed].token)
        if left < _CANCELLED:
            left = float(self.row.sum(dtype=torch.float64))
        if left <= 0:
            self._gone.pop()
        following = self.failed + 1
        ahead = self.targets[following] if following < len(self.candidates) else 0.0
        # A one-hot law leaves the row at its scale.
        self.leave(self._kept(), left, self.weight * left / self.mass, ahead, 1.0)

    def _kept(self) -> Tensor:
        """The row before tokens are dropped, found when first needed: a failed leaf has none."""
        if self._row is None:
            rows, place = self._of
            (self._row,) = rows.processed_rows([place])
        return self._row


def fail(places: Sequence[Place], laws: DraftLaws, kind: TrialKind) -> None:
    """The next candidate of every place failed: take its law off, for all places at once."""
    if kind in WITHOUT_CHANCE:
        for place in places:
            place.drop()
    elif places:
        _subtract(places, laws, kind)


def _subtract(places: Sequence[Place], laws: DraftLaws, kind: TrialKind) -> None:
    """``fail`` for candidates that were drawn."""
    rows = torch.stack([place.row for place in places])
    law = _untried(places, [place.failed for place in places], laws, kind)
    left = rows.mul_(_column([p.weight / p.mass for p in places], rows))
    left.addcmul_(law, _column([-1 / p.draft_mass for p in places], rows)).clamp_(min=0.0)
    # Behind the last candidate any other will do: what is found there is not read.
    following = [min(place.failed + 1, len(place.candidates) - 1) for place in places]
    tokens = torch.tensor(
        [[p.candidates[at].token] for p, at in zip(places, following, strict=True)],
        device=rows.device,
    )
    drafts = [1.0] * len(places)
    if kind is TrialKind.WITHOUT_REPLACEMENT:
        drafts = _draft_masses(places, following, law, laws)
    facts = torch.stack([left.sum(1, dtype=torch.float64), left.gather(1, tokens)[:, 0].double()])
    for place, row, mass, ahead, draft in zip(places, left, *facts.tolist(), drafts, strict=True):
        place.leave(row, mass, mass, ahead, draft)


def _draft_masses(
    places: Sequence[Place], following: Sequence[int], law: Tensor, laws: DraftLaws
) -> list[float]:
    """Mass of the following candidate's law over what could still be drawn from it.

    Args:
        law: [n, V] law of the candidate that failed now, without the tokens before it.
    """
    masses = law.sum(1, dtype=torch.float64).tolist()
    for line, (place, at) in enumerate(zip(places, following, strict=True)):
        failed = place.candidates[place.failed]
        masses[line] -= failed.draft
        if place.candidates[at].law != failed.law or masses[line] < _CANCELLED:
            kind = TrialKind.WITHOUT_REPLACEMENT
            masses[line] = float(_untried([place], [at], laws, kind).sum(dtype=torch.float64))
    return masses


def blank(rows: Tensor, tokens: Sequence[Sequence[int]]) -> Tensor:
    """Rows [n, V] without the given tokens of each; changed in place."""
    lines = [line for line, row in enumerate(tokens) for _ in row]
    if lines:
        rows[lines, [token for row in tokens for token in row]] = 0.0
    return rows


def _untried(
    places: Sequence[Place], which: Sequence[int], laws: DraftLaws, kind: TrialKind
) -> Tensor:
    """Law [n, V] of one candidate per place; without replacement the tokens before it are gone.

    Whether the siblings share a row or keep one each, as drawn or already without those tokens,
    the result is the same up to its sum.
    """
    chosen = [place.candidates[at] for place, at in zip(places, which, strict=True)]
    law = laws.whole(
        [place.owner for place in places],
        [candidate.law for candidate in chosen],
        [candidate.token for candidate in chosen],
        places[0].row,
    )
    if kind in WITH_REPEATS:
        return law
    before = [place.candidates[:at] for place, at in zip(places, which, strict=True)]
    return blank(law, [[earlier.token for earlier in line] for line in before])


def _column(values: Sequence[float], like: Tensor) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, device=like.device).to(like.dtype)[:, None]

"""A step's draft and verdict on the host, read from the device in one copy.

Shapes: B requests, N nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specbench.decoding.protocols import Acceptance, Draft
from specbench.decoding.rows import BrokenRowsError
from specbench.decoding.transfer import to_host
from specbench.decoding.tree import chain

Read = Callable[[Tensor], Callable[[], Tensor]]
"""Starts reading a tensor; see ``decoding.transfer.to_host``."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step came to.

    Attributes:
        draft: as it was proposed; a chain's ids are on the host.
        acceptance: all of it on the host.
    """

    draft: Draft
    acceptance: Acceptance


def outcome(draft: Draft, acceptance: Acceptance) -> Outcome:
    """The outcome, waiting for all that was queued before; nothing is copied on a CPU."""
    if acceptance.path.device.type == "cpu":
        return Outcome(draft, acceptance)
    return outcome_later(draft, acceptance, None)()


def outcome_later(
    draft: Draft, acceptance: Acceptance, sound: Tensor | None, read: Read = to_host
) -> Callable[[], Outcome]:
    """Start reading; what is returned waits for the reading and for nothing queued behind it.

    Args:
        draft: a chain's ids are read too.
        acceptance: the rule's verdict.
        sound: bool [B], whether the target's rows all named a token; None where that is known.
        read: starts the copy.

    Raises, when waited for:
        BrokenRowsError: rows of the draft or of the target that named none.
    """
    nodes, fine = draft.tree.width, acceptance.n_accepted >= 0
    columns = [
        draft.tree.ids.to(fine.device),
        acceptance.path,
        acceptance.n_accepted[:, None],
        acceptance.next_token[:, None],
        acceptance.kind[:, None],
        (fine if draft.sound is None else draft.sound)[:, None],
        (fine if sound is None else sound)[:, None],
    ]
    widths = [column.shape[1] for column in columns]
    waiting = read(torch.cat([column.long() for column in columns], 1))

    def wait() -> Outcome:
        ids, path, count, following, kind, drafted, verified = waiting().split(widths, 1)
        for model, named in (("draft", drafted), ("target", verified)):
            broken = [b for b, (good,) in enumerate(named.tolist()) if not good]
            if broken:
                raise BrokenRowsError(broken, model)
        verdict = Acceptance(path, *(part.squeeze(1) for part in (count, following, kind)))
        if not draft.tree.chain or not nodes:
            return Outcome(draft, verdict)
        return Outcome(replace(draft, tree=chain(ids, draft.tree.counts)), verdict)

    return wait

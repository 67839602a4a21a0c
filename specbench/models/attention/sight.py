"""What the tokens of a segment see, as attention needs it: rows to read, and a mask where needed.

Shapes: G query heads per key-value head, n tokens of a segment, L KV rows before them, m rows of
its tail.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.decoding.transfer import to_device
from specbench.models.packed_batch import Segment

SPLIT_FROM = 250_000
"""Entries of a mask over the prefix from which it is cheaper to attend to the prefix apart.

Reading the mask costs up to a fifth of attention, a second call and the merging some 50 us per
layer. With heads of 64 on a CPU both ways take as long near 200,000 entries; at 800,000 a forward
is 5 % shorter.
"""


@dataclass(frozen=True, slots=True)
class Sight:
    """What one segment's attention reads.

    Attributes:
        first: KV rows before it are outside of every token's window.
        open: rows from ``first`` on that are attended to apart, without a mask: all tokens see
            them. 0 where everything is attended to at once.
        mask: additive [G * n, rows behind the open ones], -inf where a token does not see a row;
            None where it sees all of them.
    """

    first: int
    open: int
    mask: Tensor | None


def sight(
    segment: Segment,
    groups: int,
    window: int | None,
    dtype: torch.dtype,
    device: torch.device,
    can_split: bool,
) -> Sight:
    """What a segment sees.

    Args:
        groups: G; the mask is repeated for every query head that shares keys.
        window: a token sees itself and the ``window - 1`` positions before it (transformers'
            sliding window); None = all.
        dtype, device: of the mask.
        can_split: whether attention to a part of the rows can be merged with that to the rest.
    """
    narrow = is_narrow(segment, window)
    if segment.count == 1 and segment.visible is None and not narrow:
        return Sight(0, 0, None)
    before = segment.before
    if can_split and not narrow and groups * segment.count * before >= SPLIT_FROM:
        return Sight(0, before, _additive(visible_tail(segment), groups, dtype, device))
    first, visible = visible_rows(segment, window)
    return Sight(first, 0, _additive(visible, groups, dtype, device))


def visible_rows(segment: Segment, window: int | None) -> tuple[int, Tensor]:
    """Rows that a segment's tokens see, of all KV rows of their request.

    Args:
        window: see ``sight``.

    Returns:
        The first row that any of them sees, and bool [n, rows from that one on], on the host.
    """
    if is_narrow(segment, window):
        assert window is not None
        return _windowed(segment, window)
    before = torch.ones(segment.count, segment.before, dtype=torch.bool)
    return 0, torch.cat([before, visible_tail(segment)], 1)


def is_narrow(segment: Segment, window: int | None) -> bool:
    """Whether a token of the segment does not see all of the rows that its tree allows."""
    if window is None:
        return False
    lowest = 0 if segment.before else int(_positions(segment).min())
    return int(_positions(segment)[-segment.count :].max()) - lowest >= window


def _windowed(segment: Segment, window: int) -> tuple[int, Tensor]:
    """Rows behind the edge of the earliest window, each token with an edge of its own."""
    position = _positions(segment)
    edge = position[-segment.count :, None] - window
    first = min(max(int(edge.min()) + 1, 0), segment.before)
    prefix = torch.arange(first, segment.before)
    return first, torch.cat([prefix > edge, visible_tail(segment) & (position > edge)], 1)


def _positions(segment: Segment) -> Tensor:
    """int64 [m], positions of the tail's rows."""
    if segment.depths is None:
        return torch.arange(segment.before, segment.before + segment.tail)
    return segment.before + segment.depths.cpu()


def visible_tail(segment: Segment) -> Tensor:
    """bool [n, m] on the host: what each token sees of the tail."""
    if segment.visible is None:
        return torch.ones(segment.count, segment.count, dtype=torch.bool).tril()
    return segment.visible.cpu()


def _additive(visible: Tensor, groups: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    mask = torch.zeros(visible.shape, dtype=dtype).masked_fill_(~visible, -torch.inf)
    return to_device(mask.repeat(groups, 1), device)

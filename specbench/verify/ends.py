"""From the ends of the ways that requests took down their trees to the verdict of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.decoding.protocols import BONUS, RECOVERED, Acceptance, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import draw
from specbench.decoding.tree import PAD, TokenTree
from specbench.verify.argmax import first_choices


@dataclass(frozen=True, slots=True)
class End:
    """Where one request's way ends.

    Attributes:
        path: accepted nodes in order.
        row: [V] weights of the next token, not necessarily normalised.
        rejected: whether a candidate failed at the last node.
    """

    path: Sequence[int]
    row: Tensor
    rejected: bool


def verdict(
    tree: TokenTree, rows: TargetRows, uniforms: Uniforms, ends: Mapping[int, End]
) -> Acceptance:
    """Draw the tokens behind the ends; requests at temperature 0 follow the argmax instead.

    Args:
        tree, rows, uniforms: as a rule gets them.
        ends: request -> its end, for all requests above temperature 0.
    """
    if not ends:
        return first_choices(tree, rows)
    device = tree.ids.device
    padding = [PAD] * (tree.width + 1)
    paths = [[*end.path, *padding[len(end.path) :]] for end in ends.values()]
    kind = torch.tensor(
        [RECOVERED if end.rejected else BONUS for end in ends.values()], device=device
    )
    at = torch.tensor(list(ends), device=device)
    number = torch.where(kind == BONUS, uniforms.bonus[at], uniforms.residual[at])
    next_token = draw(torch.stack([end.row for end in ends.values()]), number)
    count = torch.tensor([len(end.path) for end in ends.values()], device=device)
    found = Acceptance(torch.tensor(paths, device=device), count, next_token, kind)
    if len(ends) == len(tree.ids):
        return found
    cold = first_choices(tree, rows)
    return Acceptance(
        cold.path.index_copy(0, at, found.path),
        cold.n_accepted.index_copy(0, at, found.n_accepted),
        cold.next_token.index_copy(0, at, found.next_token),
        cold.kind.index_copy(0, at, found.kind),
    )

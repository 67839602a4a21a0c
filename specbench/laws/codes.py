"""Emitted tokens as numbers: sequences in base V, shorter ones first. Shapes: W = K + 1 places."""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.laws.rounds import PAD, counted


class BrokenOutputError(ValueError):
    """A sampler's output that is no sequence of tokens."""


def refuse_broken(tokens: Tensor, size: int) -> None:
    """``BrokenOutputError`` where a row of int64 [n, W] is not ids below size, then -1."""
    count = counted(tokens)
    slots = torch.arange(tokens.shape[1], device=tokens.device)
    named = (tokens >= 0) & (tokens < size)
    right = torch.where(slots < count[:, None], named, tokens == PAD).all(1) & (count > 0)
    if not bool(right.all()):
        row = tokens[~right][0].tolist()
        raise BrokenOutputError(
            f"emitted {row}: a row holds at least one token id below {size}, then -1 to its end"
        )


def encode(tokens: Tensor, size: int) -> Tensor:
    """One number per row of tokens int64 [n, W], see ``refuse_broken``."""
    refuse_broken(tokens, size)
    count = counted(tokens)
    number = torch.zeros_like(count)
    for step in range(tokens.shape[1]):
        number = torch.where(step < count, number * size + tokens[:, step], number)
    return number + torch.tensor(offsets(size, tokens.shape[1]))[count - 1]


def offsets(size: int, width: int) -> list[int]:
    """First code of the sequences of 1 .. ``width`` tokens, and the first unused one."""
    found = [0]
    for n in range(1, width + 1):
        found.append(found[-1] + size**n)
    return found


def digits(number: int, size: int, n: int) -> tuple[int, ...]:
    """The ``n`` tokens behind a number in base ``size``."""
    found: list[int] = []
    for _ in range(n):
        number, digit = divmod(number, size)
        found.append(digit)
    return tuple(reversed(found))

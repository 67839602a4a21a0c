"""The one definition of temperature, top-k, top-p, min-p, penalties and of drawing a token.

Target and draft rows pass through the same functions, position by position. Order: penalties and
minimum length, temperature, top-k, top-p, min-p (the order of transformers' processors). Tokens
that are equal at the border of a truncation stay together. Softmax and truncations run on kernels
that are chosen once per target (``decoding.kernels``).
Shapes: M rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from specbench.core.request import Sampling
from specbench.decoding.kernels.protocol import Kernels
from specbench.decoding.kernels.with_torch import TORCH
from specbench.decoding.transfer import to_device

_BLOCK = 256
"""Ids whose weights are summed at once where several tokens are drawn from a row."""
_FEW = 2**16
"""Weights that are summed sooner than blocks of them are looked through."""


@dataclass(frozen=True, slots=True)
class RowContext:
    """The tokens before one row, for penalties and minimum length.

    Attributes:
        prompt: prompt token ids.
        output: output token ids before this position, drafts on the path included.
        forbidden: ids that may not come yet (stop ids below the minimum length).
    """

    prompt: Sequence[int]
    output: Sequence[int]
    forbidden: Sequence[int] = ()


def penalise(
    logits: Tensor, sampling: Sequence[Sampling], contexts: Sequence[RowContext]
) -> Tensor:
    """Logits [M, V] with penalties and minimum length applied; the argument is not changed.

    Repetition penalty sees prompt and output, frequency and presence penalties the output alone.
    """
    adjusted = logits.clone()
    for row, (settings, context) in enumerate(zip(sampling, contexts, strict=True)):
        line = adjusted[row]
        if settings.repetition_penalty != 1.0:
            seen = torch.tensor(sorted({*context.prompt, *context.output}), device=line.device)
            values = line[seen]
            factor = settings.repetition_penalty
            line[seen] = torch.where(values > 0, values / factor, values * factor)
        if context.output and (settings.frequency_penalty or settings.presence_penalty):
            ids, counts = torch.tensor(list(context.output), device=line.device).unique(
                return_counts=True
            )
            line[ids] -= settings.frequency_penalty * counts + settings.presence_penalty
        if context.forbidden:
            line[torch.tensor(list(context.forbidden), device=line.device)] = -torch.inf
    return adjusted


def one_hot(logits: Tensor) -> Tensor:
    """Rows with all mass on the argmax; the lowest id wins a tie."""
    return torch.zeros_like(logits).scatter_(1, logits.argmax(1, keepdim=True), 1.0)


def probabilities(logits: Tensor, sampling: Sequence[Sampling], kernels: Kernels = TORCH) -> Tensor:
    """Processed probabilities float32 [M, V]; greedy rows are one-hot at the argmax."""
    if all(s.greedy for s in sampling):
        return one_hot(logits.float())
    first = sampling[0]
    if all(s == first for s in sampling):
        return _uniform_rows(logits, first, kernels)
    result = torch.empty(logits.shape, dtype=torch.float32, device=logits.device)
    for settings in set(sampling):
        same = [i for i, s in enumerate(sampling) if s == settings]
        rows = to_device(torch.tensor(same), logits.device)
        chosen = logits[rows]
        result[rows] = (
            one_hot(chosen.float()) if settings.greedy else _uniform_rows(chosen, settings, kernels)
        )
    return result


def tempered(logits: Tensor, temperature: float) -> Tensor:
    """softmax(logits / temperature) in float32, without any truncation."""
    return TORCH.softmax(logits, temperature)


def _uniform_rows(logits: Tensor, settings: Sampling, kernels: Kernels) -> Tensor:
    probs = kernels.softmax(logits, settings.temperature)
    if 0 < settings.top_k < probs.shape[1]:
        probs = kernels.top_k(probs, settings.top_k)
    if settings.top_p < 1.0:
        probs = kernels.top_p(probs, settings.top_p)
    if settings.min_p > 0.0:
        probs = torch.where(probs < settings.min_p * probs.amax(1, keepdim=True), 0.0, probs)
        probs /= probs.sum(1, keepdim=True)
    return probs


def draw(weights: Tensor, uniform: Tensor) -> Tensor:
    """Inverse-CDF draw in id order; the only sampler, so that equal rows and numbers agree.

    Args:
        weights: non-negative [M, V], not necessarily normalised, at least one positive per row.
        uniform: float64 [M] in [0, 1).

    Returns:
        int64 [M] ids; an id of weight zero is never drawn, whatever the number.
    """
    cumulative = weights.cumsum(1, dtype=torch.float64)
    total = cumulative[:, -1]
    # u * total may round up to total itself, which would fall behind the last token.
    point = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, point[:, None], right=True).squeeze(1)


def draw_without_replacement(weights: Tensor, uniforms: Tensor) -> Tensor:
    """n draws per row, each from the row without the tokens drawn before it, renormalised.

    The same tokens as ``draw`` of what is left each time.

    Args:
        weights: non-negative [M, V], not necessarily normalised.
        uniforms: float64 [M, n] in [0, 1).

    Returns:
        int64 [M, n] ids; -1 once a row has no token of positive weight left.
    """
    if weights.numel() < _FEW:
        return _one_by_one(weights, uniforms)
    left = functional.pad(weights, (0, -weights.shape[1] % _BLOCK))
    lines = left.view(-1, _BLOCK)
    sums = lines.sum(1, dtype=torch.float64)
    starts = torch.arange(0, len(lines), len(lines) // len(weights), device=weights.device)
    found = []
    for number in uniforms.unbind(1):
        token, certain = _block_draw(lines, sums, starts, number)
        if not bool(certain.all()):
            doubtful = ~certain
            rest = left[doubtful, : weights.shape[1]]
            token[doubtful] = _one_by_one(rest, number[doubtful, None]).squeeze(1)
        found.append(token)
        spent = token.clamp(min=0)
        left.scatter_(1, spent[:, None], 0.0)
        # Summed anew: a difference would be off by the rounding of what was drawn.
        line = spent // _BLOCK + starts
        sums[line] = lines[line].sum(1, dtype=torch.float64)
    return torch.stack(found, 1)


def _one_by_one(weights: Tensor, uniforms: Tensor) -> Tensor:
    """What ``draw_without_replacement`` means: ``draw``, and the drawn weight becomes zero."""
    left = weights.clone()
    found = []
    for number in uniforms.unbind(1):
        empty = left.amax(1) <= 0
        token = torch.where(empty, 0, draw(left, number).clamp(max=left.shape[1] - 1))
        left.scatter_(1, token[:, None], 0.0)
        found.append(torch.where(empty, -1, token))
    return torch.stack(found, 1)


def _block_draw(
    lines: Tensor, sums: Tensor, starts: Tensor, uniform: Tensor
) -> tuple[Tensor, Tensor]:
    """Draws int64 [M] that sum blocks first, and whether each is certainly that of ``draw``.

    Sums of another order differ by rounding. A draw is certain where the number lies farther from
    both ends of its token's interval than any order of the sums can move them.

    Args:
        lines: [M * blocks, _BLOCK] weights.
        sums: float64 [M * blocks] of their blocks.
        starts: int64 [M] first block of each row.
        uniform: float64 [M].
    """
    blocks = len(lines) // len(starts)
    ends = sums.view(-1, blocks).cumsum(1)
    total = ends[:, -1]
    point = uniform * total
    block = torch.searchsorted(ends, point[:, None], right=True).squeeze(1).clamp(max=blocks - 1)
    line = block + starts
    weights = lines[line]
    inside = weights.cumsum(1, dtype=torch.float64)
    point -= ends.view(-1)[line] - inside[:, -1]
    place = torch.searchsorted(inside, point[:, None], right=True).clamp(max=_BLOCK - 1)
    above = inside.gather(1, place).squeeze(1) - point
    below = weights.gather(1, place).squeeze(1) - above
    # A sum of n terms is off by less than n units of 2^-53 of itself; eight times that covers both
    # ways of summing, their differences and the product with the total.
    doubt = total * (blocks * _BLOCK * 2.0**-50)
    return block * _BLOCK + place.squeeze(1), torch.minimum(above, below) > doubt

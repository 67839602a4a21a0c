"""The one definition of temperature, top-k, top-p, min-p, penalties and of drawing a token.

Target and draft rows pass through the same functions, position by position. Order: penalties and
minimum length, temperature, top-k, top-p, min-p (the order of transformers' processors).
Shapes: M rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.core.request import Sampling

_FIRST_GUESS = 64
"""Candidates examined first for top-p; doubled until they hold the mass."""


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


def probabilities(logits: Tensor, sampling: Sequence[Sampling]) -> Tensor:
    """Processed probabilities float32 [M, V]; greedy rows are one-hot at the argmax."""
    if all(s.greedy for s in sampling):
        return one_hot(logits.float())
    first = sampling[0]
    if all(s == first for s in sampling):
        return _uniform_rows(logits, first)
    result = torch.empty(logits.shape, dtype=torch.float32, device=logits.device)
    for settings in set(sampling):
        rows = torch.tensor(
            [i for i, s in enumerate(sampling) if s == settings], device=logits.device
        )
        chosen = logits[rows]
        result[rows] = (
            one_hot(chosen.float()) if settings.greedy else _uniform_rows(chosen, settings)
        )
    return result


def tempered(logits: Tensor, temperature: float) -> Tensor:
    """softmax(logits / temperature) in float32, without any truncation."""
    return torch.softmax(logits.float() / temperature, dim=-1)


def _uniform_rows(logits: Tensor, settings: Sampling) -> Tensor:
    probs = tempered(logits, settings.temperature)
    vocabulary = probs.shape[1]
    if 0 < settings.top_k < vocabulary:
        values, ids = probs.topk(settings.top_k, dim=1)
        probs = torch.zeros_like(probs).scatter_(1, ids, values)
        probs /= probs.sum(1, keepdim=True)
    if settings.top_p < 1.0:
        probs = _top_p(probs, settings.top_p)
    if settings.min_p > 0.0:
        probs = torch.where(probs < settings.min_p * probs.amax(1, keepdim=True), 0.0, probs)
        probs /= probs.sum(1, keepdim=True)
    return probs


def _top_p(probs: Tensor, top_p: float) -> Tensor:
    """Keep the smallest set of most likely tokens whose mass reaches ``top_p``.

    A partial selection instead of a full sort: the vocabulary is sorted only as far as needed.
    """
    vocabulary = probs.shape[1]
    count = min(_FIRST_GUESS, vocabulary)
    values, ids = probs.topk(count, dim=1)
    while count < vocabulary and bool((values.sum(1) < top_p).any()):
        count = min(4 * count, vocabulary)
        values, ids = probs.topk(count, dim=1)
    before = values.cumsum(1, dtype=torch.float64) - values
    kept = torch.where(before < top_p, values, 0.0)
    filtered = torch.zeros_like(probs).scatter_(1, ids, kept)
    return filtered / filtered.sum(1, keepdim=True)


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

    Args:
        weights: non-negative [M, V], not necessarily normalised.
        uniforms: float64 [M, n] in [0, 1).

    Returns:
        int64 [M, n] ids; -1 once a row has no token of positive weight left.
    """
    left = weights.clone()
    found = []
    for number in uniforms.unbind(1):
        empty = left.amax(1) <= 0
        token = torch.where(empty, 0, draw(left, number).clamp(max=left.shape[1] - 1))
        left.scatter_(1, token[:, None], 0.0)
        found.append(torch.where(empty, -1, token))
    return torch.stack(found, 1)

"""Uniform numbers of a decode step, addressed so that neighbours in the batch cannot matter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from specbench.decoding.protocols import Draft, RuleInfo, Uniforms
from specbench.decoding.random import Stream, uniforms
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.transfer import to_device


def _column(values: Sequence[int]) -> np.ndarray:
    return np.array(values, dtype=np.uint64)[:, None]


def step_uniforms(
    rows: Sequence[DecodedSequence], draft: Draft, device: torch.device, rule: RuleInfo
) -> Uniforms:
    """Numbers for one acceptance: one per trial, and the target's draw at every position.

    The target stream is keyed by absolute position, which is committed length plus depth.
    """
    tree, trials = draft.tree, draft.trials.node.shape[1]
    nodes = tree.width
    if not rule.random_at_zero and all(row.request.sampling.greedy for row in rows):
        return _zeros(len(rows), trials, nodes, device)
    seeds = _column([row.request.seed for row in rows])
    steps = _column([row.step for row in rows])
    depths = np.zeros((len(rows), nodes + 1), dtype=np.uint64)
    depths[:, 1:] = np.arange(1, nodes + 1) if tree.chain else tree.depths().cpu().numpy()
    positions = _column([row.length for row in rows]) + depths
    per_step = trials + 2
    streams = np.full(per_step + nodes + 1, Stream.TARGET, dtype=np.uint64)
    streams[:per_step] = Stream.ACCEPT
    streams[trials:per_step] = Stream.RESIDUAL, Stream.BONUS
    node = np.zeros_like(streams)
    node[:trials] = np.arange(trials)
    # One call for all streams: the generator's cost is per call, not per number.
    values = uniforms(
        seeds,
        streams[None, :],
        np.concatenate([np.repeat(steps, per_step, axis=1), positions], axis=1),
        node[None, :],
    )
    table = to_device(torch.from_numpy(values), device)
    return Uniforms(table[:, :trials], table[:, trials], table[:, trials + 1], table[:, per_step:])


def first_token_uniforms(rows: Sequence[DecodedSequence], device: torch.device) -> Tensor:
    """Numbers [B] for the token that the prefill emits."""
    seeds = [row.request.seed for row in rows]
    positions = [row.length for row in rows]
    return to_device(torch.from_numpy(uniforms(seeds, Stream.TARGET, positions, 0)), device)


def draft_uniforms(rows: Sequence[DecodedSequence], node: int) -> Tensor:
    """Numbers [B] for drafting node ``node`` of the current step."""
    seeds = [row.request.seed for row in rows]
    steps = [row.step for row in rows]
    return torch.from_numpy(uniforms(seeds, Stream.DRAFT, steps, node))


def _zeros(batch: int, trials: int, nodes: int, device: torch.device) -> Uniforms:
    """Greedy rules read no numbers; the fields keep their shapes."""
    one = torch.zeros(batch, dtype=torch.float64, device=device)
    return Uniforms(
        one[:, None].expand(batch, trials), one, one, one[:, None].expand(batch, nodes + 1)
    )

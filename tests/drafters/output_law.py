"""Whole outputs of many requests against a target that depends on the last token alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from scipy import stats
from torch import Tensor

from specbench.decoding.protocols import Rule
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.laws.outputs import own_law


def mild_law(size: int, seed: int = 0) -> Tensor:
    """Rows [V, V] in which no token is rare or nearly certain."""
    generator = torch.Generator().manual_seed(seed)
    return torch.softmax(0.8 * torch.randn(size, size, generator=generator), 1)


class Lenient:
    """A rule whose accept numbers are a fifth too small: lenience 0.8."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rule, name)

    def __call__(self, tree, trials, rows, laws, states, uniforms):
        smaller = replace(uniforms, accept=0.8 * uniforms.accept)
        return self._rule(tree, trials, rows, laws, states, smaller)


def p_of_outputs(rows: Sequence[DecodedSequence], law: Tensor, start: int) -> float:
    """Chi-square of the outputs behind prompts that end in ``start``; rare outputs are pooled."""
    length = len(rows[0].trace.output_ids)
    counts = Counter(tuple(row.trace.output_ids) for row in rows)
    wanted = own_law(law, length)[start].flatten().double() * len(rows)
    keys = torch.cartesian_prod(*[torch.arange(len(law))] * length).tolist()
    found = torch.tensor([counts[tuple(key)] for key in keys], dtype=torch.float64)
    large = wanted >= 8
    observed = [*found[large].tolist(), float(found[~large].sum())]
    expected = [*wanted[large].tolist(), float(wanted[~large].sum())]
    return float(stats.chisquare(observed, expected, sum_check=False).pvalue)

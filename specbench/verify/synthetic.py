"""Synthetic acceptance (vLLM): coins of given chances decide, at every temperature.

For timing alone, at an acceptance that no drafter at hand reaches or that shall be the same for
all of them. The kept tokens are whatever was drafted: the output means nothing.

A step whose draft is shorter than K tokens keeps fewer: the chances stay those of the positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from specbench.core.parameter import Parameter
from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import BONUS, Acceptance, Lossless, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import draw
from specbench.decoding.tree import TokenTree, Trials
from specbench.errors import UsageError
from specbench.verify.chain import accepted_prefix
from specbench.verify.listed import ListedRule

INFO = RuleInfo(
    name="synthetic",
    source="vLLM, rejection_sample_method = synthetic",
    lossless=Lossless.MEANINGLESS,
    needs="processed",
    laws=("one_hot", "dense"),
    tree=False,
    temperature_zero="the same coins; then the argmax",
    random_at_zero=True,
    device_only=True,
    parameters={
        "rates": Parameter(
            "chance per position d = 1, 2, ... that drafts 1 to d are kept; never increasing",
            None, 0, 1, many=True,
        ),
        "length": Parameter(
            "mean tokens per step, the target's own included; at most K + 1", None, 1, 1e6
        ),
        "rate": Parameter("chance that a draft is kept when those before it are", None, 0, 1),
    },
)  # fmt: skip


def synthetic(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
    **chances: Any,
) -> tuple[Acceptance, States]:
    """Keep drafts while their coins allow; the token after them is drawn from the target."""
    path, count, kind = _kept(tree, rows, uniforms, **chances)
    number = torch.where(kind == BONUS, uniforms.bonus, uniforms.residual)
    return Acceptance(path, count, draw(rows.at(count), number), kind), states


def at_zero(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
    **chances: Any,
) -> tuple[Acceptance, States]:
    """The same coins; the token after the kept drafts is the argmax."""
    path, count, kind = _kept(tree, rows, uniforms, **chances)
    next_token = rows.argmax().gather(1, count[:, None]).squeeze(1)
    return Acceptance(path, count, next_token, kind), states


def _kept(
    tree: TokenTree, rows: TargetRows, uniforms: Uniforms, **chances: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Path, count and kind of the drafts that their coins keep; ids out of range end the path."""
    inside = (tree.ids >= 0) & (tree.ids < rows.raw.shape[1])
    # Number by number, so that none has to be sent to the device.
    coins = [
        uniforms.accept[:, place] < chance
        for place, chance in enumerate(conditional(tree.width, **chances))
    ]
    kept = torch.stack(coins, 1) if coins else torch.ones_like(inside)
    return accepted_prefix(tree, inside & kept)


def conditional(
    width: int, rates: Sequence[float] | None, length: float | None, rate: float | None
) -> list[float]:
    """Chance of each of ``width`` positions, given that those before it were kept.

    With r_d the chance that drafts 1 to d are kept, it is r_d / r_{d-1}, and 0 where that is 0/0.
    ``length`` L asks for r_d = min(1, max(0, L - d)): ones, one fraction, zeros. Their sum is
    L - 1, and no other rates of that sum have a smaller variance of the number kept.
    """
    if rate is not None:
        return [rate] * width
    if length is not None:
        reached = [min(1.0, max(0.0, length - d)) for d in range(1, width + 1)]
    else:
        given = rates or ()
        reached = [*given[:width], *[0.0] * (width - len(given))]
    return [now / before if before > 0 else 0.0 for before, now in pairwise([1.0, *reached])]


def _check(values: Mapping[str, Any], k: int | None) -> None:
    """Exactly one parameter is set; rates do not increase; rates and length fit K."""
    given = {name: value for name, value in values.items() if value is not None}
    if len(given) != 1:
        found = " and ".join(f"{name} = {_text(value)}" for name, value in given.items())
        raise UsageError(
            f"rule synthetic needs exactly one of rates, length and rate; given: {found or 'none'}",
            "write rule_options = { length = 2.5 }, { rate = 0.7 } or { rates = [0.9, 0.6, 0.3] }",
        )
    rates, length = values["rates"], values["length"]
    for place, (before, now) in enumerate(pairwise(rates or ()), 2):
        if now > before:
            raise UsageError(
                f"rule synthetic: rates = {_text(rates)}: number {place}, {now:g}, is larger than "
                f"{before:g} before it",
                "give the chance that drafts 1 to d are all kept: it never increases",
            )
    if k is None:
        return
    if rates is not None and len(rates) < k:
        raise UsageError(
            f"rule synthetic: rates = {_text(rates)} has {len(rates)} numbers for k = {k}",
            f"give {k} numbers, or k = {len(rates)}",
        )
    if length is not None and length > k + 1:
        raise UsageError(
            f"rule synthetic: length = {length:g} is more than the {k + 1} tokens of a step with "
            f"k = {k}",
            f"give a length in [1, {k + 1}], or a larger k",
        )


def _text(value: float | Sequence[float]) -> str:
    if isinstance(value, int | float):
        return f"{value:g}"
    return f"[{', '.join(f'{one:g}' for one in value)}]"


RULE = ListedRule(INFO, synthetic, at_zero, check=_check)

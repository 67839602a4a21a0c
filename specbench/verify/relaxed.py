"""Relaxed acceptance (TensorRT-LLM): keep drafts close to the target's first choice while thinking.

Everything else is greedy matching, at every temperature: what is not accepted is replaced by the
target's argmax, so above temperature 0 the output is not distributed as the target's.

``top_n`` = 1 keeps the argmax alone (lowest id on ties), which is exact greedy matching whatever
``delta`` says. That is lossless at temperature 0 and lossy above it, while ``exact_at`` claims
losslessness at every temperature; so it is empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from specbench.core.parameter import Parameter
from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Acceptance, Lossless, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import one_hot, tempered
from specbench.decoding.tree import TokenTree, Trials
from specbench.errors import UsageError
from specbench.verify.chain import accepted_prefix
from specbench.verify.listed import ListedRule

INFO = RuleInfo(
    name="relaxed",
    source="TensorRT-LLM, relaxed acceptance for thinking (multi-token prediction)",
    lossless=Lossless.LOSSY,
    needs="raw",
    laws=("one_hot", "dense"),
    tree=False,
    temperature_zero="itself; greedy outside of thinking, also at T > 0",
    stateful=True,
    parameters={
        "top_n": Parameter("keep drafts among the target's n first choices", 1, 1, 1e6, whole=True),
        "delta": Parameter("largest probability difference to the first choice", 0.0, 0, 1),
        "think_begin": Parameter(
            "token id that starts thinking; not set: always active", None, 0, 1e9, whole=True
        ),
        "think_end": Parameter("token id that ends thinking", None, 0, 1e9, whole=True),
    },
)


def relaxed(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
    *,
    top_n: int,
    delta: float,
    think_begin: int | None,
    think_end: int | None,
) -> tuple[Acceptance, States]:
    """Accept the argmax and, while active, whatever is near it; then emit the argmax after.

    A request's state says whether it is active in this step: it follows from the prompt and the
    tokens of the steps before, so a token that ends thinking counts from the next step on.
    """
    best = rows.argmax()
    passed = tree.ids == best[:, :-1]
    if top_n > 1 and (think_begin is None or any(states)):
        probs = rows.untempered()
        own = rows.pick(probs, tree)
        near = (own > 0) & (own >= _least(probs, top_n, delta)[rows.before(tree)])
        passed |= near & _active(states, think_begin, passed)
    path, count, kind = accepted_prefix(tree, passed)
    next_token = best.gather(1, count[:, None]).squeeze(1)
    if think_begin is not None:
        table = torch.cat([tree.ids, count[:, None], next_token[:, None]], 1).tolist()
        states = [
            _thinking([*ids[:kept], following], bool(state), think_begin, think_end)
            for state, (*ids, kept, following) in zip(states, table, strict=True)
        ]
    return Acceptance(path, count, next_token, kind), states


def law(
    rows: TargetRows,
    places: Tensor,
    draft: Tensor | None,
    states: States,
    *,
    top_n: int,
    delta: float,
    think_begin: int | None,
    think_end: int | None,
) -> Tensor:
    """The draft where it is near the argmax; all other mass on the argmax."""
    logits = rows.adjusted[places].float()
    if draft is None or top_n == 1:
        return one_hot(logits)
    probs = tempered(logits, 1.0)
    near = (probs > 0) & (probs >= _least(probs, top_n, delta)[:, None])
    kept = torch.where(near & _active(states, think_begin, near), draft, 0.0)
    best = logits.argmax(1, keepdim=True)
    return kept.scatter_add_(1, best, (1 - kept.sum(1, keepdim=True)).clamp(min=0.0))


def admit(
    tokens: Sequence[int], *, think_begin: int | None, think_end: int | None, **others: object
) -> bool:
    """Whether a request is active after its prompt and first output token."""
    return think_begin is None or _thinking(tokens, False, think_begin, think_end)


def _least(probs: Tensor, top_n: int, delta: float) -> Tensor:
    """Smallest probability [M] that is near the first choice, of rows [M, V].

    All tokens as likely as the n-th are among the n first: a rank would depend on the order in
    which equal ones happen to be sorted.
    """
    first = probs.topk(min(top_n, probs.shape[1]), dim=1).values
    return torch.maximum(first[:, -1], first[:, 0] - delta)


def _active(states: States, think_begin: int | None, like: Tensor) -> Tensor:
    """bool, [n, 1] or a scalar: whose drafts are judged by nearness."""
    flags = True if think_begin is None else [[bool(state)] for state in states]
    return torch.tensor(flags, device=like.device)


def _thinking(tokens: Sequence[int], before: bool, begin: int, end: int | None) -> bool:
    """The flag after ``tokens``: the last marker decides, without one it stays."""
    for token in reversed(tokens):
        if token in (begin, end):
            return token == begin
    return before


def _check(values: Mapping[str, Any], k: int | None) -> None:
    """Both markers or neither, and different ones."""
    begin, end = values["think_begin"], values["think_end"]
    if (begin is None) != (end is None):
        names = ["think_begin", "think_end"]
        given, absent = names if end is None else reversed(names)
        raise UsageError(
            f"rule relaxed: {given} = {values[given]} is set, {absent} is not",
            f"add {absent} = TOKEN_ID, or remove {given}: the rule is then always active",
        )
    if begin is not None and begin == end:
        raise UsageError(
            f"rule relaxed: think_begin and think_end are the same token, {begin}",
            "give two different token ids, or neither: the rule is then always active",
        )


RULE = ListedRule(INFO, relaxed, relaxed, law=law, admit=admit, check=_check)

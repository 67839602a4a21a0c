"""Simulated decoding with known laws, written apart from the code under test.

Contexts are independent: token t has its own random target and draft rows. n tokens, V ids.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np

from specbench.fidelity.columns import Columns

Array = np.ndarray
EVERY = 5
"""Every fifth token comes without a draft."""


def softmax(logits: Array) -> Array:
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@dataclass(frozen=True)
class Rows:
    """Laws [n, V] of n tokens: target and draft at the request's temperature, and at 1."""

    target: Array
    draft: Array
    untempered: Array
    drafted: Array

    def __len__(self) -> int:
        return len(self.target)


def rows(seed: int, n: int, *, v: int = 8, temperature: float = 0.7, noise: float = 1.0) -> Rows:
    """Gaussian logits of spread 1.5; the draft's are off by ``noise``."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(n, v))
    wrong = logits + noise * rng.normal(size=(n, v))
    return Rows(
        softmax(logits / temperature),
        softmax(wrong / temperature),
        softmax(logits),
        np.arange(n) % EVERY != 0,
    )


def pick(law: Array, rng: np.random.Generator) -> Array:
    """One id per row."""
    point = rng.random(len(law)) * law.sum(1)
    return (law.cumsum(1) <= point[:, None]).sum(1)


def speculate(
    known: Rows,
    rng: np.random.Generator,
    *,
    target: Array | None = None,
    lenience: float = 1.0,
    residual_is_target: bool = False,
    greedy_draft: bool = False,
) -> Array:
    """Emitted ids [n] of speculative sampling, one draft per token; the options are defects."""
    p, q, line = known.target if target is None else target, known.draft, np.arange(len(known))
    proposed = q.argmax(1) if greedy_draft else pick(q, rng)
    chance = p[line, proposed] / (lenience * q[line, proposed])
    accepted = rng.random(len(p)) < chance
    rest = p if residual_is_target else np.maximum(p - lenience * q, 0.0)
    # Where nothing is left over, acceptance was certain and the row is never used.
    recovered = pick(np.where(rest.sum(1, keepdims=True) > 0, rest, p), rng)
    return np.where(known.drafted, np.where(accepted, proposed, recovered), pick(p, rng))


def evidence(known: Rows, ids: Array, rng: np.random.Generator) -> Columns:
    """What an engine records about the emitted ids, from whole rows and plain sums."""
    p, q, line, drafted = known.target, known.draft, np.arange(len(known)), known.drafted
    order = np.where(drafted[:, None], q / p, p)
    own = order[line, ids][:, None]
    earlier = (order > own) | ((order == own) & (np.arange(p.shape[1]) < ids[:, None]))
    surprisal = -np.log(p)
    entropy = (p * surprisal).sum(1)
    first, best = q.argmax(1), p.argmax(1)

    def where_drafted(values: Array) -> Array:
        return np.where(drafted, values, np.nan)

    return Columns(
        drafted=drafted,
        log_target=np.log(p[line, ids]),
        log_draft=where_drafted(np.log(q[line, ids])),
        entropy=entropy,
        entropy_variance=(p * (surprisal - entropy[:, None]) ** 2).sum(1),
        sum_squares=(p**2).sum(1),
        pit_low=(p * earlier).sum(1),
        pit_width=p[line, ids],
        overlap_lenient=where_drafted(np.minimum(q, 2 * p).sum(1)),
        draft_top_target=where_drafted(p[line, first]),
        draft_top_hit=where_drafted((ids == first).astype(float)),
        target_top=p[line, best],
        target_top_hit=(ids == best).astype(float),
        log_untempered=np.log(known.untempered[line, ids]),
        support_margin=np.full(len(p), np.nan),
        uniform=rng.random(len(p)),
    )


def cell(known: Rows, emit: Callable[..., Array], seed: int, **options: object) -> Columns:
    """Evidence of one run of ``emit`` over the rows."""
    rng = np.random.default_rng(seed)
    return evidence(known, emit(known, rng, **options), rng)


def part(columns: Columns, chosen: slice | Array) -> Columns:
    """Some of the tokens."""
    return replace(columns, **{f.name: getattr(columns, f.name)[chosen] for f in fields(Columns)})

"""Columns of evidence for emitted tokens, computed from rows and laws; one value per token.

Shapes: n tokens, V vocabulary.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from specbench.decoding.emitted import NO_DRAFT, Emitted
from specbench.decoding.laws import DraftLaws
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import tempered

_SMALLEST = 1e-38
"""Keeps the logarithm finite where the target probability is 0; its weight there is 0."""


def greedy_columns(emitted: Emitted, rows: TargetRows, laws: DraftLaws | None) -> dict[str, list]:
    """Top-1 minus top-2 logit, and the second choice."""
    logits = rows.adjusted_rows(emitted.row)
    # Two maxima cost less than selecting two over the vocabulary.
    best, at = logits.max(1)
    second, runner_up = logits.scatter_(1, at[:, None], -torch.inf).max(1)
    hit = at == torch.tensor(emitted.token, device=at.device)
    return {
        "margin": (best - second).tolist(),
        "runner_up": runner_up.tolist(),
        "target_top_hit": hit.int().tolist(),
    }


def sampled_columns(emitted: Emitted, rows: TargetRows, laws: DraftLaws | None) -> dict[str, list]:
    device = rows.raw.device
    target = torch.stack(rows.processed_rows(emitted.row))
    tokens = torch.tensor(emitted.token, device=device)[:, None]
    own = target.gather(1, tokens)
    logs = target.clamp(min=_SMALLEST).log_()
    weighted = target * logs
    entropy = -weighted.sum(1)
    top, first = target.max(1)
    variance = (weighted.mul_(logs).sum(1) - entropy**2).clamp_(min=0)
    columns = {
        "log_target": [log_or_none(p) for p in own.squeeze(1).tolist()],
        "entropy": entropy.tolist(),
        "entropy_variance": variance.tolist(),
        "sum_squares": torch.linalg.vecdot(target, target).tolist(),
        "pit_width": own.squeeze(1).tolist(),
        "target_top": top.tolist(),
        "target_top_hit": (first == tokens.squeeze(1)).int().tolist(),
        **untempered_columns(emitted, rows, own.squeeze(1)),
    }
    # Ratios only matter for their order; where nothing was drafted the target gives it.
    order = target.clone()
    drafted = [i for i, draft in enumerate(emitted.draft) if draft != NO_DRAFT]
    if drafted and laws is not None:
        order[drafted] = _draft_columns(columns, emitted, drafted, target, tokens, laws)
    columns["pit_low"] = _mass_before(target, order, tokens)
    return columns


def untempered_columns(emitted: Emitted, rows: TargetRows, own: Tensor) -> dict[str, list]:
    """What the emitted tokens would be without temperature and truncation.

    Args:
        own: [n] target probability of each emitted token.
    """
    settings = [rows.sampling[row] for row in emitted.row]
    columns: dict[str, list] = {
        "log_untempered": [None] * len(settings),
        "support_margin": [None] * len(settings),
    }
    shaped = [i for i, s in enumerate(settings) if s.temperature != 1.0 or not s.untruncated]
    if shaped:
        logits = rows.adjusted_rows([emitted.row[i] for i in shaped]).float()
        tokens = torch.tensor([emitted.token[i] for i in shaped], device=own.device)[:, None]
        values = (logits.gather(1, tokens).squeeze(1) - logits.logsumexp(1)).tolist()
        for i, value in zip(shaped, values, strict=True):
            columns["log_untempered"][i] = value if value > -math.inf else None
    for i in (own == 0).nonzero().flatten().tolist():
        columns["support_margin"][i] = _outside_by(rows, emitted.row[i], emitted.token[i])
    return columns


def _outside_by(rows: TargetRows, row: int, token: int) -> float:
    """How far in nats the token lies beyond the border of the truncation that cuts most; <= 0.

    The border itself, not the nearest token that was kept: top-k's is its k-th probability, min-p's
    a share of the largest; top-p cuts by the mass before a token, whose excess is turned into nats
    by how fast that mass moves with the logits.
    """
    settings = rows.sampling[row]
    probs = tempered(rows.adjusted_rows([row]), settings.temperature)[0].double()
    own, margins = float(probs[token]), []
    if own == 0:
        return -math.inf
    if settings.min_p > 0:
        margins.append(math.log(own / (settings.min_p * float(probs.max()))))
    if 0 < settings.top_k < len(probs):
        smallest = float(probs.topk(settings.top_k).values[-1])
        margins.append(math.log(own / smallest))
        probs = torch.where(probs >= smallest, probs, 0.0)
    if settings.top_p < 1:
        # Top-p comes after top-k, over what that left.
        before = float(probs[probs > own].sum() / probs.sum())
        margins.append((settings.top_p - before) / max(before * (1 - before), _SMALLEST))
    return min([0.0, *margins])


def _draft_columns(
    columns: dict[str, list],
    emitted: Emitted,
    drafted: list[int],
    target: Tensor,
    tokens: Tensor,
    laws: DraftLaws,
) -> Tensor:
    """Fill the columns that compare with the draft law; returns the order by draft/target."""
    part = emitted.part(drafted)
    target, tokens = target[drafted], tokens[drafted].squeeze(1)
    found = laws.compare(part.owner, part.law, part.draft, tokens, target)
    for name, values in (
        ("log_draft", [log_or_none(p) for p in found.emitted.tolist()]),
        ("overlap", found.overlap.tolist()),
        ("overlap_lenient", found.lenient.tolist()),
        ("draft_top_target", target.gather(1, found.first[:, None]).squeeze(1).tolist()),
        ("draft_top_hit", (found.first == tokens).int().tolist()),
    ):
        column = columns.setdefault(name, [None] * len(emitted.token))
        for i, value in zip(drafted, values, strict=True):
            column[i] = value
    return found.order


def _mass_before(target: Tensor, order: Tensor, tokens: Tensor) -> list[float]:
    """Target mass of tokens that come before the emitted one; equal keys go by id."""
    # Signs in floating point: over a vocabulary, comparisons to bool cost far more.
    sign = (order - order.gather(1, tokens)).sign_()
    mass = torch.linalg.vecdot(target, sign.clamp(min=0))
    for line, token in enumerate(tokens.squeeze(1).tolist()):
        mass[line] += torch.dot(target[line, :token], 1 - sign[line, :token].abs())
    return mass.tolist()


def log_or_none(probability: float) -> float | None:
    """Natural logarithm; None at 0, whose logarithm no file can hold."""
    return math.log(probability) if probability > 0 else None

"""Constant-size evidence per emitted token, from rows the step has anyway (ALGORITHMS 6.3).

Every emitted token counts, at the event "position reached"; conditioning on acceptance would bias
any test. The order of the probability integral transform is fixed before the draw: descending
target/draft ratio is not used where no draft exists; there the order is descending target.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.core.trace import Evidence
from specbench.decoding.laws import DenseLaws, DraftLaws
from specbench.decoding.rows import TargetRows


def record(
    targets: Sequence[Evidence],
    first_position: Sequence[int],
    emitted: Sequence[Sequence[int]],
    rows: TargetRows,
    packed: Sequence[Sequence[int]],
    laws: DraftLaws | None,
    drafts: Sequence[Sequence[int]],
) -> None:
    """Append evidence for the emitted tokens of one step.

    Args:
        targets: where to append, one per request.
        first_position: output position of the first emitted token, per request.
        emitted: token ids, per request.
        rows: the step's target rows.
        packed: packed row of each emitted token, per request.
        laws: draft laws; None where nothing was drafted.
        drafts: drafted ids on the path by position, per request; shorter than ``emitted`` where a
            position had no draft.
    """
    flat = [row for line in packed for row in line]
    if not flat:
        return
    place = torch.tensor(flat)
    tokens = torch.tensor([token for line in emitted for token in line])
    greedy = [rows.sampling[row].greedy for row in flat]
    columns = _greedy_columns(rows, place) if any(greedy) else {}
    if not all(greedy):
        owner = [b for b, line in enumerate(emitted) for _ in line]
        node = [n for line in emitted for n in range(len(line))]
        drafted = [
            drafts[b][n] if n < len(drafts[b]) else -1 for b, n in zip(owner, node, strict=True)
        ]
        columns |= _sampled_columns(rows, place, tokens, laws, owner, node, drafted)
    offset = 0
    for b, line in enumerate(emitted):
        evidence = targets[b]
        for n in range(len(line)):
            at = offset + n
            evidence.position.append(first_position[b] + n)
            evidence.drafted.append(int(n < len(drafts[b])))
            names = _GREEDY if greedy[at] else _SAMPLED
            for name in _GREEDY + _SAMPLED:
                value = columns[name][at] if name in names else None
                getattr(evidence, name).append(value)
        offset += len(line)


_GREEDY = ("margin", "runner_up")
_SAMPLED = (
    "log_target",
    "log_draft",
    "entropy",
    "entropy_variance",
    "sum_squares",
    "pit_low",
    "pit_width",
    "overlap",
    "draft_top_target",
    "draft_top_hit",
)


def _greedy_columns(rows: TargetRows, place: Tensor) -> dict[str, list[float] | list[int]]:
    """Top-1 minus top-2 logit, and the second choice."""
    logits = rows.adjusted[place]
    # Two maxima cost less than a selection of two over the vocabulary.
    best, at = logits.max(1)
    second, runner_up = logits.scatter(1, at[:, None], -torch.inf).max(1)
    return {"margin": (best - second).tolist(), "runner_up": runner_up.tolist()}


def _sampled_columns(
    rows: TargetRows,
    place: Tensor,
    tokens: Tensor,
    laws: DraftLaws | None,
    owner: Sequence[int],
    node: Sequence[int],
    drafted: Sequence[int],
) -> dict[str, list]:
    target = rows.processed()[place]
    log_target = torch.where(target > 0, target, 1.0).log()
    weighted = target * log_target
    entropy = -weighted.sum(1)
    result = {
        "entropy": entropy.tolist(),
        "entropy_variance": ((weighted * log_target).sum(1) - entropy**2).clamp(min=0).tolist(),
        "sum_squares": target.square().sum(1).tolist(),
    }
    own = target.gather(1, tokens[:, None])
    result["pit_width"] = own.squeeze(1).tolist()
    result["log_target"] = [
        None if p == 0 else v
        for p, v in zip(
            result["pit_width"],
            log_target.gather(1, tokens[:, None]).squeeze(1).tolist(),
            strict=True,
        )
    ]
    draft_ids = torch.tensor(drafted)
    has_draft = draft_ids >= 0
    if laws is not None and laws.dense:
        assert isinstance(laws, DenseLaws)
        row = torch.tensor([n if d >= 0 else 0 for n, d in zip(node, drafted, strict=True)])
        draft = laws.rows[torch.tensor(owner), row]
    else:
        draft = torch.zeros_like(target)
        draft[has_draft, draft_ids[has_draft]] = 1.0
    key = -torch.where(has_draft[:, None], draft / target.clamp(min=1e-38), target)
    own_key = key.gather(1, tokens[:, None])
    ids = torch.arange(target.shape[1])
    before = (key < own_key) | ((key == own_key) & (ids < tokens[:, None]))
    result["pit_low"] = (target * before).sum(1).tolist()
    own_draft = draft.gather(1, tokens[:, None]).squeeze(1)
    top = torch.where(has_draft, draft.argmax(1), 0)
    overlap = torch.minimum(target, draft).sum(1)

    def where_drafted(values: list) -> list:
        return [v if d else None for v, d in zip(values, has_draft.tolist(), strict=True)]

    logs = [None if v == 0 else v for v in own_draft.tolist()]
    result["log_draft"] = where_drafted(
        [None if v is None else float(torch.tensor(v).log()) for v in logs]
    )
    result["overlap"] = where_drafted(overlap.tolist())
    result["draft_top_target"] = where_drafted(target.gather(1, top[:, None]).squeeze(1).tolist())
    result["draft_top_hit"] = where_drafted((top == tokens).int().tolist())
    return result

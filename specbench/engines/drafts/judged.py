"""What the recorded tokens say about one draft of a batch: chances of acceptance, depth by depth.

Above temperature 0 a recorded token that the target could not emit is accepted from no draft, of
whatever kind: no rule keeps a token of target probability 0. At temperature 0 a draft is held
against the record alone: a recorded token that is not the target's choice was one where rounding or
the recorded engine made it so, and a draft that has it was right there.

Shapes: B requests, N nodes, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.decoding.protocols import Draft
from specbench.decoding.tree import ROOT
from specbench.engines.drafts.window import Place
from specbench.verify.argmax import follow


@dataclass(frozen=True, slots=True)
class Judged:
    """One request's draft against its recorded tokens.

    Attributes:
        chances: by depth, the chance that the recorded token was drafted and accepted, given that
            it was emitted; it ends with the draft, the record, or behind the first 0.
        overlaps: by depth, the chance that any draft is accepted there.
    """

    chances: list[float]
    overlaps: list[float]


def judge_forced(draft: Draft, place: Place) -> list[Judged]:
    """Chains drawn from full rows, whose tokens are the recorded ones: min(1, draft / target)."""
    ahead = [line[:n] for line, n in zip(place.ahead, draft.tree.counts, strict=True)]
    probs = draft.laws.token_probs(draft.tree.ids, draft.trials.law).tolist()
    overlaps = _overlaps(draft, place, ahead)
    found = []
    for b, line in enumerate(ahead):
        chances: list[float] = []
        for j in range(len(line)):
            target = place.chance(b, j + 1)
            chances.append(min(1.0, probs[b][j] / target) if target > 0 else 0.0)
        found.append(Judged(chances, overlaps[b]))
    return found


def _overlaps(draft: Draft, place: Place, ahead: Sequence[Sequence[int]]) -> list[list[float]]:
    """sum min(target, draft) at every depth, one depth at a time: a row per request lives."""
    laws = draft.trials.law.tolist()
    found: list[list[float]] = [[] for _ in ahead]
    for depth in range(max(map(len, ahead), default=0)):
        owners = [b for b, line in enumerate(ahead) if len(line) > depth]
        rows = torch.tensor([place.row(b, depth + 1) for b in owners], device=draft.tree.ids.device)
        target = place.window.processed[rows]
        law = draft.laws.whole(
            owners, [laws[b][depth] for b in owners], [ahead[b][depth] for b in owners], target
        )
        for b, value in zip(owners, torch.minimum(target, law).sum(1).tolist(), strict=True):
            found[b].append(value)
    return found


def judge_found(draft: Draft, place: Place) -> list[Judged]:
    """Chains and trees of tokens chosen without chance: is the recorded token among them?

    At temperature 0 any draft is of this kind, because the target's choice alone is accepted.
    """
    if not draft.tree.width:
        return [Judged([], []) for _ in place.ahead]
    walked = follow(draft.tree, _choices(draft, place.ahead))
    matched = walked.n_accepted.tolist()
    paths = walked.path.tolist()
    counts = [_emittable(b, min(m, len(place.ahead[b])), place) for b, m in enumerate(matched)]
    chances = []
    for b, count in enumerate(counts):
        more = count < min(draft.tree.deepest[b], len(place.ahead[b]))
        chances.append([1.0] * count + [0.0] * more)
    if place.window.greedy:
        return [Judged(line, line) for line in chances]
    covered = _covered(draft, place, paths, [len(line) for line in chances])
    return [Judged(line, mass) for line, mass in zip(chances, covered, strict=True)]


def _emittable(request: int, matched: int, place: Place) -> int:
    """Recorded tokens from here on that the target could emit, of at most ``matched``."""
    if place.window.greedy:
        return matched
    chances = (place.chance(request, depth + 1) for depth in range(matched))
    return next((i for i, chance in enumerate(chances) if not chance), matched)


def _choices(draft: Draft, ahead: Sequence[Sequence[int]]) -> Tensor:
    """int64 [B, N + 1]: the recorded token behind the root and behind nodes of every depth."""
    deepest = max(draft.tree.deepest, default=0)
    table = torch.full((len(ahead), deepest + 1), -1, dtype=torch.int64)
    for b, line in enumerate(ahead):
        known = list(line[: deepest + 1])
        table[b, : len(known)] = torch.tensor(known)
    device = draft.tree.ids.device
    depths = draft.tree.depths().clamp(max=deepest)
    root = torch.zeros(len(ahead), 1, dtype=torch.int64, device=device)
    return table.to(device).gather(1, torch.cat([root, depths], 1))


def _covered(
    draft: Draft, place: Place, paths: Sequence[Sequence[int]], depths: Sequence[int]
) -> list[list[float]]:
    """Target mass of the candidates at every reached depth of the recorded path."""
    ids, parents = draft.tree.ids.tolist(), draft.tree.parents.tolist()
    rows, tokens, owner = [], [], []
    for b, reached in enumerate(depths):
        behind = [ROOT, *paths[b]][:reached]
        level = {parent: depth for depth, parent in enumerate(behind)}
        for node in range(draft.tree.counts[b]):
            depth = level.get(parents[b][node])
            if depth is not None and ids[b][node] >= 0:
                rows.append(place.row(b, depth + 1))
                tokens.append(ids[b][node])
                owner.append((b, depth))
    found = [[0.0] * reached for reached in depths]
    for (b, depth), mass in zip(owner, place.window.target_of(rows, tokens), strict=True):
        found[b][depth] += mass
    return found

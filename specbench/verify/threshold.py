"""Threshold acceptance as in SGLang's tree verification: draft laws are not used.

The candidates of a node share one coin. One is kept when it is likely enough by itself, or when the
coin falls within the target probability of the candidates so far, blown up by 1/acc. At 1 and 1
this is membership of one draw from the target, which is lossless; anything lower is not.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.core.parameter import Parameter
from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import (
    BONUS,
    Acceptance,
    Lossless,
    RuleInfo,
    States,
    Uniforms,
)
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import draw
from specbench.decoding.tree import ROOT, TokenTree, Trials
from specbench.verify.chain import accepted_prefix
from specbench.verify.children import Candidate, Children, children, entries
from specbench.verify.ends import End, verdict
from specbench.verify.leftover import blank
from specbench.verify.listed import ListedRule

INFO = RuleInfo(
    name="threshold",
    source="SGLang, tree_speculative_sampling_target_only",
    lossless=Lossless.LOSSY,
    needs="processed",
    laws=("one_hot", "dense"),
    tree=True,
    temperature_zero="argmax match",
    exact_at={"single": 1, "acc": 1},
    parameters={
        "single": Parameter("keep a draft of at least this target probability", 1.0, 0, 1, True),
        "acc": Parameter("divisor of the target probability in the coin's test", 0.9, 0, 1, True),
    },
    device_only=True,
)


def threshold(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
    *,
    single: float,
    acc: float,
) -> tuple[Acceptance, States]:
    """Accept x iff u < target(x) / acc or target(x) >= single; else draw from the target without x.

    Siblings are tried in order with one u, the accept number of the first, and target(x) is summed
    over those tried so far; if none is kept, the draw is from the target without them. A repeated
    token counts once. With one candidate the output law is out(x) = min(1, target(x) / acc), or 1
    where target(x) >= single, and the other tokens share the rest in proportion to the target.
    """
    # Several drafts that agree make a chain whose nodes are tried more than once each.
    if not tree.chain or trials.node.shape[1] != tree.width:
        return _siblings(tree, trials, rows, uniforms, single, acc), states
    target = rows.token_probs(tree)
    passed = (uniforms.accept * acc < target) | ((target >= single) & (target > 0))
    path, count, kind = accepted_prefix(tree, passed)
    next_row = rows.at(count)
    bonus = kind == BONUS
    weights = next_row
    if tree.width:
        failed = count.clamp(max=tree.width - 1)[:, None]
        token = tree.ids.gather(1, failed)
        # Ids that name no token have nothing to remove.
        named = (token >= 0) & (token < next_row.shape[1])
        without = next_row.scatter(1, torch.where(named, token, 0), 0.0)
        usable = ~bonus & named.squeeze(1) & (without.sum(1) > 0)
        weights = torch.where(usable[:, None], without, next_row)
    next_token = draw(weights, torch.where(bonus, uniforms.bonus, uniforms.residual))
    return Acceptance(path, count, next_token, kind), states


def _siblings(
    tree: TokenTree, trials: Trials, rows: TargetRows, uniforms: Uniforms, single: float, acc: float
) -> Acceptance:
    """The rule on trees: down from the root, to the first candidate of each node that is kept."""
    offers = children(tree, trials, rows, uniforms, None)
    ways = {b: _kept(o, rows, single, acc) for b, o in enumerate(offers) if not o.greedy}
    last = {b: path[-1] if path else ROOT for b, path in ways.items()}
    failed = [offers[b].by_parent.get(node, ()) for b, node in last.items()]
    places = [offers[b].places[node + 1] for b, node in last.items()]
    target = torch.stack(rows.processed_rows(places)) if places else rows.raw[:0]
    without = blank(target.clone(), [[c.token for c in line] for line in failed])
    weights = torch.where(without.sum(1, keepdim=True) > 0, without, target)
    ends = {
        b: End(ways[b], row, bool(candidates) or last[b] in offers[b].refused)
        for b, row, candidates in zip(ways, weights, failed, strict=True)
    }
    return verdict(tree, rows, uniforms, ends)


def _kept(offer: Children, rows: TargetRows, single: float, acc: float) -> list[int]:
    """One request's path."""
    path: list[int] = []
    here = ROOT
    while candidates := offer.by_parent.get(here, ()):
        (row,) = rows.processed_rows([offer.places[here + 1]])
        kept = _first_kept(candidates, entries(row, candidates), single, acc)
        if kept is None:
            break
        path.append(here := kept)
    return path


def _first_kept(
    candidates: Sequence[Candidate], targets: Sequence[float], single: float, acc: float
) -> int | None:
    total = 0.0
    for candidate, target in zip(candidates, targets, strict=True):
        total += target
        alone = target > 0 and target >= single
        if alone or candidates[0].number * acc < total:
            return candidate.node
    return None


def law(
    rows: TargetRows,
    places: Tensor,
    draft: Tensor | None,
    states: States,
    *,
    single: float,
    acc: float,
) -> Tensor:
    """Mean over x drawn from the draft of the law that one candidate x has.

    x is kept with probability a(x); a rejected x leaves target(y) / (1 - target(x)) to every other
    y, so out(y) = draft(y) a(y) + target(y) (S - s(y)) with s(x) = draft(x) (1 - a(x)) /
    (1 - target(x)) and S = sum s.
    """
    target = rows.processed()[places]
    if draft is None:
        return target
    kept = (target / acc).clamp(max=1.0)
    kept = torch.where((target >= single) & (target > 0), 1.0, kept)
    missed = draft * (1 - kept)
    room = (1 - target).clamp(min=torch.finfo(target.dtype).eps)
    share = torch.where(missed > 0, missed / room, 0.0)
    return draft * kept + target * (share.sum(1, keepdim=True) - share)


RULE = ListedRule(INFO, threshold, law=law)

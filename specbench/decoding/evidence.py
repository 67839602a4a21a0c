"""Constant-size evidence per emitted token, from rows the step has anyway (ALGORITHMS 6.3).

Every emitted token counts, at the event "position reached"; conditioning on acceptance would bias
any test (ALGORITHMS 1.8). The token order of the probability integral transform is fixed before
the draw: descending draft/target ratio, or descending target where there was no draft.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from functools import partial

import torch
from torch import Tensor

from specbench.core.trace import Evidence
from specbench.decoding.commit import Committed
from specbench.decoding.emitted import NO_DRAFT, Emitted
from specbench.decoding.laws import DraftLaws
from specbench.decoding.price import RuleLaw, rule_columns
from specbench.decoding.protocols import Draft, Lossless, Rule
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampled_price import has_siblings, sampled_prices
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.tree import PAD

_SMALLEST = 1e-38
"""Keeps the logarithm finite where the target probability is 0; its weight there is 0."""


def record(
    into: Sequence[Evidence],
    emitted: Emitted,
    rows: TargetRows,
    laws: DraftLaws | None,
    rule: RuleLaw | None = None,
) -> None:
    """Append evidence for the emitted tokens of one step.

    Args:
        into: one evidence record per request of the batch.
        emitted: what was emitted, in order.
        rows: the step's target rows.
        laws: draft laws; None where nothing was drafted.
        rule: the rule's output law at given positions; None where it is the target's.
    """
    total = len(emitted.token)
    greedy = [rows.sampling[row].greedy for row in emitted.row]
    columns: dict[str, list] = {}
    for kind, compute in ((True, _greedy_columns), (False, _sampled_columns)):
        chosen = [i for i in range(total) if greedy[i] is kind]
        if not chosen:
            continue
        part = emitted.part(chosen)
        found = compute(part, rows, laws)
        if rule is not None and not kind:
            found |= rule_columns(part, rows, laws, rule)
        for name, values in found.items():
            column = columns.setdefault(name, [None] * total)
            for i, value in zip(chosen, values, strict=True):
                column[i] = value
    absent = [None] * total
    for i, owner in enumerate(emitted.owner):
        evidence = into[owner]
        evidence.position.append(len(evidence.position))
        evidence.drafted.append(int(emitted.draft[i] != NO_DRAFT))
        for name in COLUMNS:
            getattr(evidence, name).append(columns.get(name, absent)[i])


COLUMNS = tuple(f.name for f in fields(Evidence) if f.name not in ("position", "drafted"))


def _greedy_columns(emitted: Emitted, rows: TargetRows, laws: DraftLaws | None) -> dict[str, list]:
    """Top-1 minus top-2 logit, and the second choice."""
    logits = rows.adjusted[torch.tensor(emitted.row, device=rows.raw.device)]
    # Two maxima cost less than selecting two over the vocabulary.
    best, at = logits.max(1)
    second, runner_up = logits.scatter_(1, at[:, None], -torch.inf).max(1)
    return {"margin": (best - second).tolist(), "runner_up": runner_up.tolist()}


def _sampled_columns(emitted: Emitted, rows: TargetRows, laws: DraftLaws | None) -> dict[str, list]:
    device = rows.raw.device
    target = rows.processed()[torch.tensor(emitted.row, device=device)]
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
        packed = torch.tensor([emitted.row[i] for i in shaped], device=own.device)
        logits = rows.adjusted[packed].float()
        tokens = torch.tensor([emitted.token[i] for i in shaped], device=own.device)[:, None]
        values = (logits.gather(1, tokens).squeeze(1) - logits.logsumexp(1)).tolist()
        for i, value in zip(shaped, values, strict=True):
            columns["log_untempered"][i] = value if value > -math.inf else None
    for i in (own == 0).nonzero().flatten().tolist():
        columns["support_margin"][i] = _outside_by(rows, emitted.row[i], emitted.token[i])
    return columns


def _outside_by(rows: TargetRows, row: int, token: int) -> float:
    """Log of the token's tempered probability over the smallest that was kept; -inf at most."""
    logits = rows.adjusted[row].float()
    kept = logits[rows.processed()[row] > 0].min()
    return float((logits[token] - kept) / rows.sampling[row].temperature)


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


def record_step(
    sequences: Sequence[DecodedSequence],
    draft: Draft | None,
    rows: TargetRows,
    committed: Sequence[Committed],
    rule: Rule | None = None,
) -> None:
    """Evidence for the tokens just committed, each at the position that judged or drew it.

    ``rule`` emitted them; None where the target itself did. It must know its law and be lossy for
    the law to be recorded.
    """
    index = rows.index.tolist()
    tried = _first_trials(draft, len(sequences))
    emitted = Emitted([], [], [], [], [])
    for b, (tokens, positions) in enumerate(committed):
        for token, position in zip(tokens, positions, strict=True):
            law, drafted = tried[b].get(position - 1, (0, NO_DRAFT))
            emitted.add(b, index[b][position], token, law, drafted)
    evidence = [sequence.trace.evidence for sequence in sequences]
    if rule is None or draft is None or rule.info.lossless is not Lossless.LOSSY:
        record(evidence, emitted, rows, draft.laws if draft else None)
        return
    output: RuleLaw | None = None
    if not has_siblings(draft):
        states = [sequence.rule_state for sequence in sequences]
        output = partial(_rule_law, rule, rows, states)
    first = [len(one) for one in evidence]
    record(evidence, emitted, rows, draft.laws, output)
    if not rows.all_greedy and all(
        one.rule_tv[at] is None for one, at in zip(evidence, first, strict=True)
    ):
        prices = sampled_prices(sequences, draft, rows, rule)
        for one, at, value in zip(evidence, first, prices, strict=True):
            one.rule_tv[at] = value


def _rule_law(
    rule: Rule, rows: TargetRows, states: Sequence[object], owner: Sequence[int],
    places: Tensor, draft: Tensor | None,
) -> Tensor | None:  # fmt: skip
    return rule.output_law(rows, places, draft, [states[b] for b in owner])


def _first_trials(draft: Draft | None, batch: int) -> list[dict[int, tuple[int, int]]]:
    """Per request: parent node -> law row and token of the trial that comes first there."""
    if draft is None:
        return [{}] * batch
    ids = draft.tree.ids.tolist()
    trials = draft.trials
    found: list[dict[int, tuple[int, int]]] = [{} for _ in range(batch)]
    for b, (parents, nodes, laws) in enumerate(
        zip(trials.parent.tolist(), trials.node.tolist(), trials.law.tolist(), strict=True)
    ):
        for parent, node, law in zip(parents, nodes, laws, strict=True):
            if node != PAD:
                found[b].setdefault(parent, (law, ids[b][node]))
    return found

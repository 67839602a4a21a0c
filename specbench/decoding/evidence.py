"""Constant-size evidence per emitted token, from rows the step has anyway (ALGORITHMS 6.3).

Every emitted token counts, at the event "position reached"; conditioning on acceptance would bias
any test (ALGORITHMS 1.8). The token order of the probability integral transform is fixed before
the draw: descending draft/target ratio, or descending target where there was no draft.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from specbench.core.trace import Evidence
from specbench.decoding.commit import Committed
from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Draft
from specbench.decoding.rows import TargetRows
from specbench.decoding.sequence import Sequence as DecodedSequence
from specbench.decoding.tree import PAD

NO_DRAFT = -1
_SMALLEST = 1e-38
"""Keeps the logarithm finite where the target probability is 0; its weight there is 0."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """Emitted tokens of one step, flat over the batch.

    Attributes:
        owner: row of the batch each token belongs to.
        row: packed target row it was drawn or judged by.
        token: its id.
        law: draft law row at its position.
        draft: id drafted at its position, ``NO_DRAFT`` where there was none.
    """

    owner: list[int]
    row: list[int]
    token: list[int]
    law: list[int]
    draft: list[int]

    def add(self, owner: int, row: int, token: int, law: int, draft: int) -> None:
        """Append one token."""
        self.owner.append(owner)
        self.row.append(row)
        self.token.append(token)
        self.law.append(law)
        self.draft.append(draft)

    def part(self, chosen: Sequence[int]) -> Emitted:
        """The tokens at the given places."""
        return Emitted(*([getattr(self, f.name)[i] for i in chosen] for f in fields(self)))


def record(
    into: Sequence[Evidence], emitted: Emitted, rows: TargetRows, laws: DraftLaws | None
) -> None:
    """Append evidence for the emitted tokens of one step.

    Args:
        into: one evidence record per request of the batch.
        emitted: what was emitted, in order.
        rows: the step's target rows.
        laws: draft laws; None where nothing was drafted.
    """
    total = len(emitted.token)
    greedy = [rows.sampling[row].greedy for row in emitted.row]
    columns: dict[str, list] = {}
    for kind, compute in ((True, _greedy_columns), (False, _sampled_columns)):
        chosen = [i for i in range(total) if greedy[i] is kind]
        if not chosen:
            continue
        for name, values in compute(emitted.part(chosen), rows, laws).items():
            column = columns.setdefault(name, [None] * total)
            for i, value in zip(chosen, values, strict=True):
                column[i] = value
    absent = [None] * total
    for i, owner in enumerate(emitted.owner):
        evidence = into[owner]
        evidence.position.append(len(evidence.position))
        evidence.drafted.append(int(emitted.draft[i] != NO_DRAFT))
        for name in GREEDY_COLUMNS + SAMPLED_COLUMNS:
            getattr(evidence, name).append(columns.get(name, absent)[i])


GREEDY_COLUMNS = ("margin", "runner_up")
SAMPLED_COLUMNS = (
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
    variance = (weighted.mul_(logs).sum(1) - entropy**2).clamp_(min=0)
    columns = {
        "log_target": [log_or_none(p) for p in own.squeeze(1).tolist()],
        "entropy": entropy.tolist(),
        "entropy_variance": variance.tolist(),
        "sum_squares": torch.linalg.vecdot(target, target).tolist(),
        "pit_width": own.squeeze(1).tolist(),
    }
    # Ratios only matter for their order; where nothing was drafted the target gives it.
    order = target.clone()
    drafted = [i for i, draft in enumerate(emitted.draft) if draft != NO_DRAFT]
    if drafted and laws is not None:
        order[drafted] = _draft_columns(columns, emitted, drafted, target, tokens, laws)
    columns["pit_low"] = _mass_before(target, order, tokens)
    return columns


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
) -> None:
    """Evidence for the tokens just committed, each at the position that judged or drew it."""
    index = rows.index.tolist()
    tried = _first_trials(draft, len(sequences))
    emitted = Emitted([], [], [], [], [])
    for b, (tokens, positions) in enumerate(committed):
        for token, position in zip(tokens, positions, strict=True):
            law, drafted = tried[b].get(position - 1, (0, NO_DRAFT))
            emitted.add(b, index[b][position], token, law, drafted)
    evidence = [sequence.trace.evidence for sequence in sequences]
    record(evidence, emitted, rows, draft.laws if draft else None)


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

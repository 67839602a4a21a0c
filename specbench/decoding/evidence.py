"""Constant-size evidence per emitted token, from rows the step has anyway (ALGORITHMS 6.3).

Every emitted token counts, at the event "position reached"; conditioning on acceptance would bias
any test (ALGORITHMS 1.8). The token order of the probability integral transform is fixed before
the draw: descending draft/target ratio, or descending target where there was no draft.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial

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
from specbench.decoding.token_columns import greedy_columns, sampled_columns
from specbench.decoding.tree import PAD, TrialKind


def record(
    into: Sequence[Evidence],
    emitted: Emitted,
    rows: TargetRows,
    laws: DraftLaws | None,
    rule: RuleLaw | None = None,
    siblings: Sequence[bool] | None = None,
) -> None:
    """Append evidence for the emitted tokens of one step.

    Args:
        into: one evidence record per request of the batch.
        emitted: what was emitted, in order.
        rows: the step's target rows.
        laws: draft laws; None where nothing was drafted.
        rule: the rule's output law at given positions; None where it is the target's.
        siblings: with ``rule``, per request whether its step tried several candidates at a node;
            None where none did.
    """
    total = len(emitted.token)
    greedy = [rows.sampling[row].greedy for row in emitted.row]
    columns: dict[str, list] = {}
    for kind, compute in ((True, greedy_columns), (False, sampled_columns)):
        chosen = [i for i in range(total) if greedy[i] is kind]
        if not chosen:
            continue
        part = emitted.part(chosen)
        found = compute(part, rows, laws)
        if rule is not None and not kind:
            found |= rule_columns(part, rows, laws, rule, siblings or [False] * len(into))
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
    states = [sequence.rule_state for sequence in sequences]
    first = [len(one) for one in evidence]
    output = partial(_rule_law, rule, rows, states)
    record(evidence, emitted, rows, draft.laws, output, has_siblings(draft))
    # The price takes the draft as given: it has a meaning only for drafts made without chance.
    if draft.trials.kind not in (TrialKind.ONE_HOT, TrialKind.DETERMINISTIC_SET):
        return
    places = list(zip(evidence, first, strict=True))
    unknown = [one.rule_tv[at] is None for one, at in places]
    prices = sampled_prices(sequences, draft, rows, rule, unknown)
    for (one, at), missing, value in zip(places, unknown, prices, strict=True):
        if missing:
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

"""What a lossy rule's output law costs at a position: distance to the target, from two rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specbench.decoding.emitted import NO_DRAFT, Emitted
from specbench.decoding.laws import DraftLaws
from specbench.decoding.rows import TargetRows

_SPARSE = 16
"""A law with fewer than one token in so many is taken token by token."""

RuleLaw = Callable[[Sequence[int], Tensor, Tensor | None], Tensor | None]
"""``(owner, places, draft)`` -> law rows [n, V], see ``Rule.output_law``."""


def rule_columns(
    emitted: Emitted,
    rows: TargetRows,
    laws: DraftLaws | None,
    rule: RuleLaw,
    siblings: Sequence[bool],
) -> dict[str, list[float | None]]:
    """Distance of the rule's law from the target at every emitted token; empty if not known.

    None for requests with ``siblings``: of several candidates no law of one token is known.

    The law is the one before the draft is drawn: what the rule does on average over drafts, given
    the tokens before the position.
    """
    columns: dict[str, list[float | None]] = {
        name: [None] * len(emitted.token) for name in ("rule_tv", "rule_kl", "rule_entropy")
    }
    known = [i for i, owner in enumerate(emitted.owner) if not siblings[owner]]
    drafted = [i for i in known if emitted.draft[i] != NO_DRAFT]
    plain = [i for i in known if emitted.draft[i] == NO_DRAFT]
    for chosen in (drafted, plain):
        if not chosen:
            continue
        part = emitted.part(chosen)
        places = torch.tensor(part.row, device=rows.raw.device)
        target = rows.processed()[places]
        draft = None
        if chosen is drafted and laws is not None:
            draft = laws.whole(part.owner, part.law, part.draft, target)
        law = rule(part.owner, places, draft)
        if law is None:
            return {}
        for name, values in distances(law, target).items():
            for i, value in zip(chosen, values, strict=True):
                columns[name][i] = value
    return columns


def distances(law: Tensor, target: Tensor) -> dict[str, list[float]]:
    """Total variation, KL(law || target) and entropy of the law, nats; rows [n, V]."""
    own, cross = _entropies(law, target)
    return {
        "rule_tv": (torch.sub(law, target).abs_().sum(1) / 2).tolist(),
        "rule_kl": (cross - own).clamp(min=0.0).tolist(),
        "rule_entropy": own.tolist(),
    }


def _entropies(law: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Entropy of the law, and its cross entropy with the target, each [n].

    0 log 0 is 0; mass where the target has none makes the second infinite, which is right.
    Logarithms are what this costs: a law of few tokens needs only theirs.
    """
    if int(law.count_nonzero()) * _SPARSE > law.numel():
        return torch.special.entr(law).sum(1), -torch.special.xlogy(law, target).sum(1)
    line, token = law.nonzero(as_tuple=True)
    mass = law[line, token]
    none = law.new_zeros(len(law))
    own = none.index_add(0, line, torch.special.entr(mass))
    return own, none.index_add(0, line, -torch.special.xlogy(mass, target[line, token]))

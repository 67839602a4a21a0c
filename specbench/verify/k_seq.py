"""K-SEQ: independent candidates per node, each tested against the target divided by one factor.

Sun et al. 2310.15141 (SpecTr), k-sequential selection. Between the candidates of a node the target
stays as it is, unlike in ``multi_round``; the factor rho makes up for the repeated tries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from specbench.core.parameter import Parameter
from specbench.decoding.laws import DraftLaws
from specbench.decoding.protocols import Acceptance, Lossless, RuleInfo, States, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import ROOT, TokenTree, TrialKind, Trials
from specbench.verify.children import Candidate, children
from specbench.verify.ends import End, verdict
from specbench.verify.k_seq_factor import best_factor, leftover
from specbench.verify.leftover import Place, fail
from specbench.verify.listed import ListedRule

INFO = RuleInfo(
    name="k_seq",
    source="Sun et al. 2023, 2310.15141 (SpecTr), k-sequential selection",
    lossless=Lossless.PROVEN,
    needs="processed",
    laws=("one_hot", "dense"),
    tree=True,
    trials=("one_hot", "iid"),
    temperature_zero="argmax match",
    parameters={
        "rho": Parameter("divisor of target/draft where it is exact; else the best", None, 1, 1e6)
    },
)


def k_seq(
    tree: TokenTree,
    trials: Trials,
    rows: TargetRows,
    laws: DraftLaws,
    states: States,
    uniforms: Uniforms,
    *,
    rho: float | None,
) -> tuple[Acceptance, States]:
    """Accept each of k candidates with min(1, target / (rho draft)); descend to the first accepted.

    With b = sum min(draft, target / rho) one of k passes with probability a = 1 - (1 - b)^k. If
    none does, the next token comes from target - min(draft, target / rho) a / b, which is
    non-negative for a <= rho b. The smallest such rho, in [1, k], accepts most and is the default;
    ``rho`` asks for a larger one, up to k. The test is ``u * rho * draft < target``, u in [0, 1).
    ValueError where several candidates of a parent are not draws from one law.
    """
    offers = children(tree, trials, rows, uniforms, laws)
    here = {b: Place(b, ROOT, offer, rows) for b, offer in enumerate(offers) if not offer.greedy}
    paths: dict[int, list[int]] = {b: [] for b in here}
    failed: list[Place] = []
    factors: dict[int, float] = {}
    going = [place for place in here.values() if place.candidates]
    while going:
        found = _factors(going, laws, trials.kind, rho)
        accepted = []
        for place, factor in zip(going, found, strict=True):
            factors[place.owner] = factor
            candidate = _first(place, factor)
            if candidate is None:
                failed.append(place)
            else:
                paths[place.owner].append(candidate.node)
                below = Place(place.owner, candidate.node, offers[place.owner], rows)
                here[place.owner] = below
                accepted.append(below)
        going = [place for place in accepted if place.candidates]
    # One candidate leaves what it leaves in rejection sampling.
    fail([place for place in failed if len(place.candidates) == 1], laws, trials.kind)
    _fail_together([place for place in failed if len(place.candidates) > 1], laws, factors)
    ends = {b: End(paths[b], place.row, place.rejected) for b, place in here.items()}
    return verdict(tree, rows, uniforms, ends), states


def _first(place: Place, factor: float) -> Candidate | None:
    tried = zip(place.candidates, place.targets, strict=True)
    return next((c for c, target in tried if c.number * factor * c.draft < target), None)


def _factors(
    places: Sequence[Place], laws: DraftLaws, kind: TrialKind, rho: float | None
) -> list[float]:
    """rho of every place: the best one, or the given one where it is larger."""
    several = [place for place in places if len(place.candidates) > 1]
    best: dict[int, float] = {}
    if several:
        _refuse_others(several, laws, kind)
        target, draft, count = _facts(several, laws)
        found = best_factor(target, draft, count)
        if rho is not None:
            found = torch.maximum(found, count.clamp(max=rho))
        best = {place.owner: x for place, x in zip(several, found.tolist(), strict=True)}
    return [best.get(place.owner, 1.0) for place in places]


def _fail_together(places: Sequence[Place], laws: DraftLaws, factors: Mapping[int, float]) -> None:
    """All candidates of every place failed, several each: what they leave of the target."""
    if not places:
        return
    target, draft, count = _facts(places, laws)
    rho = torch.tensor([factors[place.owner] for place in places], dtype=torch.float64)
    for place, row in zip(
        places, leftover(target, draft, count, rho.to(target.device)), strict=True
    ):
        place.row, place.rejected = row, True


def _facts(places: Sequence[Place], laws: DraftLaws) -> tuple[Tensor, Tensor, Tensor]:
    """Target and draft rows [n, V] of places and their number of candidates, float64 [n]."""
    target = torch.stack([place.row for place in places])
    draft = _law_rows(places, [place.candidates[0] for place in places], laws)
    count = torch.tensor([len(place.candidates) for place in places], dtype=torch.float64)
    return target, draft, count.to(target.device)


def _law_rows(places: Sequence[Place], candidates: Sequence[Candidate], laws: DraftLaws) -> Tensor:
    return laws.whole(
        [place.owner for place in places],
        [candidate.law for candidate in candidates],
        [candidate.token for candidate in candidates],
        places[0].row,
    )


def _refuse_others(places: Sequence[Place], laws: DraftLaws, kind: TrialKind) -> None:
    """ValueError unless all candidates of each place were drawn from one law."""
    for place in places:
        # One candidate per law row: rows may be kept per trial.
        different = list({candidate.law: candidate for candidate in place.candidates}.values())
        rows = _law_rows([place] * len(different), different, laws) if different[1:] else None
        if kind is not TrialKind.IID or (rows is not None and bool((rows != rows[:1]).any())):
            raise ValueError(
                "k_seq judges several candidates of a parent only if they are independent draws "
                "from one law"
            )


RULE = ListedRule(INFO, k_seq)

"""Every rule of the catalogue has the law that it declares: three rounds, chains, trees, edges."""

import math
from collections import Counter
from functools import cache

import pytest
import torch

from specbench import catalog
from specbench.core.request import Sampling
from specbench.decoding.laws import DenseLaws
from specbench.decoding.protocols import Lossless, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TrialKind, chain, chain_trials
from specbench.laws.chains import chain_law
from specbench.laws.listed_rules import ZERO_TABLES, rule_outcomes
from specbench.laws.mutants import DEFECTS, random_rounds
from specbench.laws.outcome import Status
from specbench.laws.outputs import conditional_distance, own_law
from specbench.laws.rounds import counted
from specbench.laws.rules import RuleSampler
from specbench.laws.tables import FOUR_DRAFT, FOUR_TARGET, SAMPLED, TABLES
from specbench.laws.trees import TREES
from tests.laws.laws_of import table


def infos(*statuses):
    """Names of rules in torch with one of the statuses."""
    facts = {name: catalog.resolve("rules", name).info for name in catalog.RULES}
    return [n for n, info in facts.items() if info.lossless in statuses and not info.library]


LOSSLESS = infos(Lossless.PROVEN, Lossless.MEASURED, Lossless.CLAIMED, Lossless.UNKNOWN)
LOSSY = infos(Lossless.LOSSY)
MEANINGLESS = infos(Lossless.MEANINGLESS)
SAMPLED_RULES = [n for n in (*LOSSLESS, *LOSSY) if catalog.resolve("rules", n).info.sampled]
GREEDY_BASE = ("typical", "relaxed")
"""Rules whose plain decoding is greedy at every temperature."""


@cache
def outcomes(name):
    return tuple(rule_outcomes(name, samples=0))


def passed(name, check):
    return [o.case for o in outcomes(name) if o.check == check and o.status is Status.PASSED]


@pytest.mark.parametrize("name", [*LOSSLESS, *LOSSY])
def test_no_check_fails(name):
    assert [o for o in outcomes(name) if o.status in (Status.FAILED, Status.TOO_FEW)] == []


@pytest.mark.parametrize("name", LOSSLESS)
def test_a_lossless_rule_is_checked_wherever_it_judges(name):
    info = catalog.resolve("rules", name).info
    laws = passed(name, "law")
    cold = {f"temperature 0, {one.name}" for one in ZERO_TABLES}
    assert cold <= set(laws)
    if info.sampled:
        assert {one.name for one in TABLES} <= set(laws)
        assert len(passed(name, "edge")) == 8
    if info.tree and info.sampled:
        kinds = {one.kind.name.lower() for one in TREES} & (set(info.trials) or {"iid"})
        found = Counter(case.partition(":")[0] for case in laws)
        assert all(found[kind] == 4 for kind in kinds)


@pytest.mark.parametrize("name", [n for n in LOSSLESS if n in SAMPLED_RULES])
def test_planted_defects_are_caught_or_leave_no_trace(name):
    mutants = {o.case: o for o in outcomes(name) if o.check == "mutant"}
    assert len(mutants) == len(DEFECTS) + 2
    caught = [case for case, o in mutants.items() if o.status is Status.PASSED]
    assert {"residual from the target", "bonus without temperature"} <= set(caught)
    blind = {case for case, o in mutants.items() if o.status is Status.NOT_APPLICABLE}
    # Only block and traversal look behind a rejection; only target_match needs no draft rows.
    keyed = "noise keyed by position"
    assert (keyed in blind) == (name not in ("block", "traversal"))
    assert (len(blind - {keyed}) > 0) == (name == "target_match")


@pytest.mark.parametrize("name", MEANINGLESS)
def test_rules_for_timing_alone_are_left_out_with_the_reason(name):
    (only,) = outcomes(name)
    assert only.status is Status.NOT_APPLICABLE
    assert "timing" in only.detail


def pairs(target, draft):
    return list(zip(target, draft, strict=True))


def kept_or_argmax(target, draft, keep):
    """Draft mass where ``keep`` says so; all other mass on the target's first choice."""
    out = [q if keep(p) else 0.0 for p, q in pairs(target, draft)]
    out[target.index(max(target))] += 1 - sum(out)
    return out


def lenient(target, draft, lenience):
    """ALGORITHMS 1.3: m + (1 - sum m) norm(relu(p - l q)) with m = min(q, p / l)."""
    kept = [min(q, p / lenience) for p, q in pairs(target, draft)]
    rest = [max(p - lenience * q, 0.0) for p, q in pairs(target, draft)]
    missing, total = 1 - sum(kept), sum(rest) or 1.0
    return [k + missing * r / total for k, r in zip(kept, rest, strict=True)]


def typical(target, draft, epsilon, delta):
    """ALGORITHMS 1.9: kept above min(epsilon, delta exp(-H)), else the first choice."""
    entropy = -sum(p * math.log(p + 1e-5) for p in target)
    least = min(epsilon, delta * math.exp(-entropy))
    return kept_or_argmax(target, draft, lambda p: p > least)


def threshold(target, draft, single, acc):
    """ALGORITHMS 1.11, one candidate x: out(x) = a(x), the others share 1 - a(x) as the target."""
    out = [0.0] * len(target)
    for x, q in enumerate(draft):
        a = 1.0 if target[x] >= single and target[x] > 0 else min(1.0, target[x] / acc)
        for y, p in enumerate(target):
            share = a if y == x else (1 - a) * p / (1 - target[x]) if target[x] < 1 else 0.0
            out[y] += q * share
    return out


def relaxed(target, draft, top_n, delta):
    """ALGORITHMS 1.10: kept among the first n and within delta of the largest.

    Of equals all are among the first n, except that the first one is a single token.
    """
    if top_n == 1:
        return kept_or_argmax(target, draft, lambda p: False)
    least = sorted(target)[-int(top_n)]
    return kept_or_argmax(target, draft, lambda p: p >= least and p >= max(target) - delta)


def blockwise(target, draft, top_k, minimum):
    """ALGORITHMS 1.12 at temperature 0: kept among the first k."""
    least = sorted(target)[-int(top_k)]
    return kept_or_argmax(target, draft, lambda p: p >= least)


FORMULAS = {
    "lenient": (lenient, [{"lenience": 0.9}, {"lenience": 0.5}, {"lenience": 1}]),
    "typical": (typical, [{"epsilon": 0.09, "delta": 0.3}, {"epsilon": 0.3, "delta": 0.6}]),
    "threshold": (threshold, [{"single": 1, "acc": 0.9}, {"single": 0.3, "acc": 0.7}]),
    "relaxed": (relaxed, [{"top_n": 1, "delta": 0.0}, {"top_n": 2, "delta": 0.2}]),
    "blockwise": (blockwise, [{"top_k": 2, "minimum": 0}]),
}
"""Published laws of one emitted token where a token is drafted, from target and draft row."""


def test_every_lossy_rule_has_a_formula():
    assert set(FORMULAS) == set(LOSSY)


# Ties of the largest probability go to the lowest id; ranks and thresholds keep equals alike.
@pytest.mark.parametrize("setting", SAMPLED[:5], ids=lambda setting: setting.name)
@pytest.mark.parametrize("name", FORMULAS)
def test_a_lossy_rule_has_its_published_law(name, setting):
    formula, options = FORMULAS[name]
    rule = catalog.resolve("rules", name)
    temperature = 1.0 if rule.info.sampled else 0.0
    for values in options:
        sampler = RuleSampler(rule.configure(values), temperature)
        rows = pairs(setting.target.double().tolist(), setting.draft.double().tolist())
        drafted = torch.tensor([formula(p, q, **values) for p, q in rows], dtype=torch.float64)
        law = chain_law(sampler, setting)
        assert conditional_distance(law, [drafted] * setting.k) < 1e-6


@pytest.mark.parametrize("name", [n for n in SAMPLED_RULES if n not in GREEDY_BASE])
def test_a_draft_of_length_zero_is_plain_decoding(name):
    rule = catalog.resolve("rules", name).configure({})
    law = chain_law(RuleSampler(rule), table(FOUR_TARGET, FOUR_DRAFT, 0))
    assert law.exact[0] == pytest.approx(own_law(FOUR_TARGET, 1), abs=1e-6)


@pytest.mark.parametrize(
    ("name", "temperature"),
    [*((n, 0.0) for n in (*LOSSLESS, *LOSSY)), *((n, 1.0) for n in SAMPLED_RULES)],
)
def test_arguments_are_left_alone(name, temperature):
    rule = catalog.resolve("rules", name).configure({})
    given = random_rounds(SAMPLED[1], 64, seed=2)
    tree = chain(given.ids, (given.k,) * 64)
    trials = chain_trials(tree, TrialKind.IID)
    rows = TargetRows(given.target.log(), given.position, [Sampling(temperature)] * 4)
    laws = DenseLaws(given.draft[given.source])
    uniforms = Uniforms(
        given.accept, given.last, given.last.clone(), torch.rand(64, given.k + 1).double()
    )
    states = [rule.admit([start]) for start in given.position[:, 0].tolist()]
    tensors = [
        *(tree.ids, trials.node, trials.parent, trials.law, rows.raw, rows.index, laws.rows),
        *(rows.processed(), rows.tempered(), rows.argmax()),
        *(uniforms.accept, uniforms.residual, uniforms.bonus, uniforms.target),
    ]
    before = [tensor.clone() for tensor in tensors]
    for _ in range(2):
        rule(tree, trials, rows, laws, states, uniforms)
    for old, new in zip(before, tensors, strict=True):
        assert torch.equal(old, new)
    assert states == [rule.admit([start]) for start in given.position[:, 0].tolist()]


@pytest.mark.parametrize("name", SAMPLED_RULES)
def test_no_rule_reads_both_kinds_of_numbers(name):
    """``RuleSampler`` feeds the same numbers as trial numbers and as the target's own draws."""
    rule = catalog.resolve("rules", name).configure({})
    given = random_rounds(SAMPLED[1], 2000, seed=3)
    tree = chain(given.ids, (given.k,) * 2000)
    trials = chain_trials(tree, TrialKind.IID)
    laws = DenseLaws(given.draft[given.source])
    fresh = torch.Generator().manual_seed(4)

    def verdict(accept, last, own):
        rows = TargetRows(given.target.log(), given.position, [Sampling(1.0)] * 4)
        states = [rule.admit([start]) for start in given.position[:, 0].tolist()]
        found, _ = rule(tree, trials, rows, laws, states, Uniforms(accept, last, last, own))
        return torch.stack([found.n_accepted, found.next_token])

    def numbers(*shape):
        return torch.rand(shape, generator=fresh, dtype=torch.float64)

    own = numbers(2000, given.k + 1)
    first = verdict(given.accept, given.last, own)
    ignores_own = torch.equal(first, verdict(given.accept, given.last, numbers(*own.shape)))
    ignores_trials = torch.equal(first, verdict(numbers(*given.accept.shape), numbers(2000), own))
    assert ignores_own or ignores_trials


def test_the_tables_hold_what_the_edges_need():
    flat = torch.cat([one.target.flatten() for one in TABLES])
    assert bool((flat == 0).any())
    assert bool((flat == 1).any())
    assert any(torch.equal(one.target, one.draft) for one in TABLES)
    assert any(bool((torch.minimum(one.target, one.draft).sum(1) == 0).any()) for one in TABLES)
    assert any(bool((one.draft.max(1).values == 1).all()) for one in TABLES)
    assert max(one.size for one in TABLES) == 6
    assert {one.k for one in TABLES} == {1, 2, 3}
    for one in TABLES:
        assert bool((one.target.double().sum(1) == 1).all())
        assert bool((one.draft.double().sum(1) == 1).all())
    assert int(counted(torch.tensor([[1, -1, -1]]))[0]) == 1

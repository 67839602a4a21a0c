"""K-SEQ's factor: given, best, and where candidates are not what it is made for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specbench.decoding.laws import DenseLaws
from specbench.decoding.tree import ROOT, TrialKind
from specbench.errors import UsageError
from specbench.verify.k_seq import RULE
from specbench.verify.k_seq_factor import best_factor
from tests.verify.exact import chance, first, judge, law_of, round_law
from tests.verify.trees import Setting

P, Q = [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]
PAIR = Setting(torch.tensor([P] * 3), torch.tensor([Q] * 3), (ROOT, ROOT), TrialKind.IID)


def passes(rho, k):
    """1 - (1 - b)^k by hand."""
    kept = sum(min(q, p / rho) for p, q in zip(P, Q, strict=True))
    return 1 - (1 - kept) ** k


@pytest.mark.parametrize(
    ("rho", "used"),
    [
        (None, 1.456776),
        # Below the best factor the leftover would be negative: the best one is used.
        (1, 1.456776),
        (1.4, 1.456776),
        (1.7, 1.7),
        # More than there are candidates only accepts less.
        (2, 2),
        (50, 2),
    ],
)
def test_any_factor_is_exact(rho, used):
    law = round_law(RULE.configure({} if rho is None else {"rho": rho}), PAIR)
    assert first(law, 3) == pytest.approx(P, abs=1e-6)
    assert chance(law) == pytest.approx(passes(used, 2), abs=1e-6)


def test_the_best_factor_solves_its_equation_and_is_found_per_row():
    generator = torch.Generator().manual_seed(4)
    target, draft = (
        torch.softmax(torch.randn(6, 50, generator=generator).double() * 2, 1) for _ in range(2)
    )
    count = torch.tensor([1.0, 2, 3, 4, 8, 64], dtype=torch.float64)
    rho = best_factor(target, draft, count)
    kept = torch.minimum(draft, target / rho[:, None]).sum(1)
    assert torch.allclose(1 - (1 - kept) ** count, rho * kept, atol=1e-6)
    assert bool(((rho >= 1) & (rho <= count)).all())
    assert rho[0] == 1


def test_equal_rows_need_no_factor_and_disjoint_ones_have_any():
    same = torch.tensor([[0.25, 0.25, 0.5]], dtype=torch.float64)
    three = torch.tensor([3.0], dtype=torch.float64)
    assert best_factor(same, same, three).item() == pytest.approx(1, abs=1e-4)
    apart = torch.tensor([[1.0, 0, 0]]), torch.tensor([[0, 0.5, 0.5]])
    assert best_factor(*apart, three).item() == 1.0


@pytest.mark.parametrize("rho", [0.9, 0, "best"])
def test_a_factor_below_one_is_refused(rho):
    with pytest.raises(UsageError, match="rho"):
        RULE.configure({"rho": rho})


def halves(batch):
    number = torch.full((len(batch.weight),), 0.99, dtype=torch.float64)
    return number[:, None].expand(-1, 2), number


@pytest.mark.parametrize("kind", [TrialKind.WITHOUT_REPLACEMENT, TrialKind.DETERMINISTIC_SET])
def test_several_candidates_that_are_no_independent_draws_are_refused(kind):
    batch = Setting(PAIR.target, PAIR.draft, PAIR.parents, kind).batch(0)
    with pytest.raises(ValueError, match="independent draws from one law"):
        judge(RULE.configure({}), batch, *halves(batch))


def with_law_per_trial(draft):
    """Two siblings whose law rows are rows 0 and 1 of ``draft``."""
    batch = PAIR.batch(0)
    count = len(batch.weight)
    trials = replace(batch.trials, law=torch.tensor([[0, 1]]).expand(count, 2))
    return replace(batch, trials=trials, laws=DenseLaws(torch.tensor(draft).expand(count, 2, 3)))


def test_siblings_may_keep_a_law_row_each_if_the_rows_are_equal():
    rule = RULE.configure({})
    law = law_of(rule, with_law_per_trial([Q, Q]))
    assert first(law, 3) == pytest.approx(P, abs=1e-6)
    different = with_law_per_trial([Q, P])
    with pytest.raises(ValueError, match="independent draws from one law"):
        judge(rule, different, *halves(different))

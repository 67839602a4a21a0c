"""Golden vectors of ALGORITHMS 1.1 and CASES B1, B2, B3, B4, B6, B10."""

import numpy as np
import pytest
import torch

from specbench.core.request import Sampling
from specbench.decoding.laws import DenseLaws, OneHotLaws
from specbench.decoding.protocols import BONUS, RECOVERED, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TrialKind, chain, chain_trials
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from tests.laws.integrate import Tables, accepted, block_law, first_token, thresholds

BELOW_ONE = float(np.nextafter(1.0, 0.0))


def one_step(rule, p, q, k=1):
    """Block law for constant rows; ``q`` a row, or the token an argmax draft takes."""
    target = torch.tensor([p] * len(p))
    dense = not isinstance(q, int)
    draft = torch.tensor([q] * len(p)) if dense else [q] * len(p)
    one_hot = torch.eye(len(p))[[q] * len(p)] if not dense else draft
    axes = thresholds(target[:1], one_hot[:1])
    return block_law(rule, Tables(target, draft, *axes), 0, k, own=rule is TARGET_MATCH)


@pytest.mark.parametrize("rule", [REJECTION, TARGET_MATCH])
@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0.4, 0.6, 0.0, 0.0], [0.625, 0.375, 0.0, 0.0]),  # B1
        ([0.51, 0.49], 0),  # B2
        ([0.5, 0.5], 0),  # B2, second table
        ([0.3, 0.7], [0.8, 0.2]),  # B3
        ([0.5, 0.3, 0.2], [0.2, 0.5, 0.3]),  # ALGORITHMS 1.1
        ([0.5, 0.3, 0.2], [0.5, 0.3, 0.2]),  # B6
    ],
)
def test_the_law_is_the_target(rule, p, q):
    assert first_token(one_step(rule, p, q), len(p)) == pytest.approx(p, abs=1e-6)


@pytest.mark.parametrize(
    ("rule", "p", "q", "alpha"),
    [
        (REJECTION, [0.4, 0.6, 0.0, 0.0], [0.625, 0.375, 0.0, 0.0], 0.775),  # B1
        (REJECTION, [0.51, 0.49], 0, 0.51),  # B2
        (REJECTION, [0.3, 0.7], [0.8, 0.2], 0.5),  # B3
        (REJECTION, [0.5, 0.3, 0.2], [0.2, 0.5, 0.3], 0.7),  # ALGORITHMS 1.1
        (TARGET_MATCH, [0.5, 0.3, 0.2], [0.2, 0.5, 0.3], 0.31),
        (REJECTION, [0.5, 0.3, 0.2], [0.5, 0.3, 0.2], 1.0),  # B6
        (TARGET_MATCH, [0.5, 0.3, 0.2], [0.5, 0.3, 0.2], 0.38),
    ],
)
def test_acceptance_is_the_published_number(rule, p, q, alpha):
    assert accepted(one_step(rule, p, q), 1) == pytest.approx(alpha, abs=1e-6)


def test_the_residual_of_the_golden_vector_is_one_hot():
    law = one_step(REJECTION, [0.5, 0.3, 0.2], [0.2, 0.5, 0.3])
    assert {path: p for path, p in law.items() if len(path) == 1} == pytest.approx(
        {(0,): 0.3}, abs=1e-6
    )


def judge(rule, p, ids, q=None, u=0.5, temperatures=None):
    """One verdict per row; p [B][K+1][V], ids [B][K], q likewise or None for one-hot drafts."""
    p, ids = torch.tensor(p), torch.tensor(ids)
    batch, positions, size = p.shape
    sampling = [Sampling(t) for t in temperatures or [1.0] * batch for _ in range(positions)]
    index = torch.arange(batch * positions).view(batch, positions)
    tree = chain(ids, (positions - 1,) * batch)
    kind = TrialKind.ONE_HOT if q is None else TrialKind.IID
    laws = OneHotLaws() if q is None else DenseLaws(torch.tensor(q))
    line = torch.full((batch,), u, dtype=torch.float64)
    table = torch.full((batch, positions), u, dtype=torch.float64)
    uniforms = Uniforms(table[:, 1:], line, line, table)
    rows = TargetRows(p.log().view(-1, size), index, sampling)
    return rule(tree, chain_trials(tree, kind), rows, laws, None, uniforms)[0]


def test_b3_the_bonus_comes_from_the_next_position():
    verdict = judge(REJECTION, [[[1.0, 0, 0, 0], [0, 0, 0, 1.0]]], [[0]])
    assert verdict.path.tolist() == [[0, -1]]
    assert (verdict.n_accepted.item(), verdict.next_token.item()) == (1, 3)
    assert verdict.kind.item() == BONUS


@pytest.mark.parametrize("u", [0.0, 0.5, 0.9999999, BELOW_ONE])
@pytest.mark.parametrize("row", [[0.25] * 4, [0.0, 1.0, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]])
def test_b4_equal_rows_always_accept(row, u):
    token = row.index(max(row))
    verdict = judge(REJECTION, [[row, row]], [[token]], [[row]], u)
    assert verdict.n_accepted.item() == 1


def test_b4_a_token_of_probability_zero_is_rejected_at_u_zero():
    verdict = judge(REJECTION, [[[0.0, 0.5, 0.5]] * 2], [[0]], [[[1.0, 0.0, 0.0]]], 0.0)
    assert verdict.n_accepted.item() == 0
    assert verdict.kind.item() == RECOVERED
    assert verdict.next_token.item() == 1


def test_b4_rows_equal_up_to_an_ulp_stay_inside_the_support():
    p = np.array([0.3, 0.7, 0.0], dtype=np.float32)
    q = np.nextafter(p, np.float32(1)) * (p > 0)
    for token in (0, 1):
        verdict = judge(REJECTION, [[p.tolist()] * 2], [[token]], [[q.tolist()]], BELOW_ONE)
        assert p[verdict.next_token.item()] > 0


@pytest.mark.parametrize("rule", [REJECTION, TARGET_MATCH])
def test_b4_a_greedy_row_with_impossible_tokens_beside_a_sampled_one(rule):
    rows = [[[0.0, 1.0, 0.0]] * 2, [[0.5, 0.3, 0.2]] * 2]
    q = [[[0.0, 1.0, 0.0]], [[0.5, 0.3, 0.2]]]
    verdict = judge(rule, rows, [[1], [0]], q, 0.25, temperatures=[0.0, 1.0])
    assert verdict.n_accepted.tolist() == [1, 1]
    assert verdict.next_token.tolist() == [1, 0]


def test_a_token_that_its_law_cannot_give_is_replaced_from_the_target():
    # u = 0.3 in id order: the target gives token 0; relu(target - draft) would give token 1.
    p, q = [0.4, 0.4, 0.2], [1.0, 0.0, 0.0]
    verdict = judge(REJECTION, [[p, p]], [[1]], [[q]], 0.3)
    assert (verdict.n_accepted.item(), verdict.next_token.item()) == (0, 0)


@pytest.mark.parametrize("rule", [REJECTION, TARGET_MATCH])
@pytest.mark.parametrize("strange", [-1, 2, 7])
def test_b10_padding_is_never_accepted_nor_emitted(rule, strange):
    ids = [[1, 0, 1, strange, strange]]
    for u in np.linspace(0, 1, 50, endpoint=False):
        verdict = judge(rule, [[[0.5, 0.5]] * 6], ids, u=float(u))
        assert verdict.n_accepted.item() <= 3
        assert verdict.next_token.item() in (0, 1)

"""Golden vectors of ALGORITHMS 1.1 and CASES B1, B2, B3, B4, B6, B10."""

import numpy as np
import pytest
import torch

from specbench import catalog
from specbench.core.request import Sampling
from specbench.decoding.laws import DenseLaws, OneHotLaws
from specbench.decoding.protocols import BONUS, RECOVERED, Lossless, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.tree import TrialKind, chain, chain_trials
from tests.laws.laws_of import first_token, kept, law_of


def every_lossless_rule():
    """Rules of the catalogue that are proven lossless above temperature 0."""
    for name in catalog.RULES:
        info = catalog.resolve("rules", name).info
        if info.sampled and info.lossless is Lossless.PROVEN:
            yield name


LOSSLESS = list(every_lossless_rule())
RATIO = [name for name in LOSSLESS if name != "target_match"]
"""Rules that test the ratio of target and draft, which keeps as much of one draft as can be."""
BELOW_ONE = float(np.nextafter(1.0, 0.0))


def rule_of(name):
    return catalog.resolve("rules", name).configure({})


@pytest.mark.parametrize("name", LOSSLESS)
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
def test_the_law_is_the_target(name, p, q):
    assert first_token(law_of(rule_of(name), p, q)) == pytest.approx(p, abs=1e-6)


@pytest.mark.parametrize("name", RATIO)
@pytest.mark.parametrize(
    ("p", "q", "alpha"),
    [
        ([0.4, 0.6, 0.0, 0.0], [0.625, 0.375, 0.0, 0.0], 0.775),  # B1
        ([0.51, 0.49], 0, 0.51),  # B2
        ([0.3, 0.7], [0.8, 0.2], 0.5),  # B3
        ([0.5, 0.3, 0.2], [0.2, 0.5, 0.3], 0.7),  # ALGORITHMS 1.1
        ([0.5, 0.3, 0.2], [0.5, 0.3, 0.2], 1.0),  # B6
    ],
)
def test_one_draft_is_kept_with_the_published_chance(name, p, q, alpha):
    assert kept(law_of(rule_of(name), p, q), 1) == pytest.approx(alpha, abs=1e-6)


@pytest.mark.parametrize(
    ("p", "q", "alpha"),
    [
        ([0.5, 0.3, 0.2], [0.2, 0.5, 0.3], 0.31),  # ALGORITHMS 1.1
        ([0.5, 0.3, 0.2], [0.5, 0.3, 0.2], 0.38),  # B6: exact in law, and accepts far less
    ],
)
def test_target_match_keeps_less(p, q, alpha):
    assert kept(law_of(rule_of("target_match"), p, q), 1) == pytest.approx(alpha, abs=1e-6)


@pytest.mark.parametrize("name", RATIO)
def test_the_residual_of_the_golden_vector_is_one_hot(name):
    law = law_of(rule_of(name), [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]).behind(0)
    recovered = {path: p for path, p in law.items() if len(path) == 1 and p > 1e-6}
    assert recovered == pytest.approx({(0,): 0.3}, abs=1e-6)


def judge(name, p, ids, q=None, u=0.5, temperatures=None):
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
    states = [None] * batch
    return rule_of(name)(tree, chain_trials(tree, kind), rows, laws, states, uniforms)[0]


@pytest.mark.parametrize("name", LOSSLESS)
def test_b3_the_bonus_comes_from_the_next_position(name):
    verdict = judge(name, [[[1.0, 0, 0, 0], [0, 0, 0, 1.0]]], [[0]])
    assert verdict.path.tolist() == [[0, -1]]
    assert (verdict.n_accepted.item(), verdict.next_token.item()) == (1, 3)
    assert verdict.kind.item() == BONUS


@pytest.mark.parametrize("name", RATIO)
@pytest.mark.parametrize("u", [0.0, 0.5, 0.9999999, BELOW_ONE])
@pytest.mark.parametrize("row", [[0.25] * 4, [0.0, 1.0, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]])
def test_b4_i_ii_equal_rows_always_accept(name, u, row):
    token = row.index(max(row))
    verdict = judge(name, [[row, row]], [[token]], [[row]], u)
    assert verdict.n_accepted.item() == 1


@pytest.mark.parametrize("name", RATIO)
def test_b4_iii_a_token_of_probability_zero_is_rejected_at_u_zero(name):
    verdict = judge(name, [[[0.0, 0.5, 0.5]] * 2], [[0]], [[[1.0, 0.0, 0.0]]], 0.0)
    assert verdict.n_accepted.item() == 0
    assert verdict.kind.item() == RECOVERED
    assert verdict.next_token.item() == 1


@pytest.mark.parametrize("name", LOSSLESS)
def test_b4_iv_rows_equal_up_to_an_ulp_stay_inside_the_support(name):
    p = np.array([0.3, 0.7, 0.0], dtype=np.float32)
    q = np.nextafter(p, np.float32(1)) * (p > 0)
    for token in (0, 1):
        verdict = judge(name, [[p.tolist()] * 2], [[token]], [[q.tolist()]], BELOW_ONE)
        assert p[verdict.next_token.item()] > 0


@pytest.mark.parametrize("name", LOSSLESS)
def test_b4_v_a_greedy_row_with_impossible_tokens_beside_a_sampled_one(name):
    rows = [[[0.0, 1.0, 0.0]] * 2, [[0.5, 0.3, 0.2]] * 2]
    q = [[[0.0, 1.0, 0.0]], [[0.5, 0.3, 0.2]]]
    verdict = judge(name, rows, [[1], [0]], q, 0.25, temperatures=[0.0, 1.0])
    assert verdict.n_accepted.tolist() == [1, 1]
    assert verdict.next_token.tolist() == [1, 0]


@pytest.mark.parametrize("name", LOSSLESS)
@pytest.mark.parametrize("u", [0.05, 0.45, 0.95])
def test_b14_greedy_rows_on_both_sides_of_a_sampled_one(name, u):
    rows = [[[0.5, 0.3, 0.2]] * 2] * 3
    q = [[[1.0, 0.0, 0.0]], [[0.2, 0.5, 0.3]], [[1.0, 0.0, 0.0]]]
    verdict = judge(name, rows, [[0], [1], [0]], q, u, temperatures=[0.0, 1.0, 0.0])
    alone = judge(name, rows[:1], [[1]], q[1:2], u)
    assert verdict.n_accepted[[0, 2]].tolist() == [1, 1]
    assert verdict.next_token[[0, 2]].tolist() == [0, 0]
    assert verdict.n_accepted[1] == alone.n_accepted[0]
    assert verdict.next_token[1] == alone.next_token[0]


@pytest.mark.parametrize("name", RATIO)
def test_a_token_that_its_law_cannot_give_is_replaced_from_the_target(name):
    # u = 0.3 in id order: the target gives token 0; relu(target - draft) would give token 1.
    p, q = [0.4, 0.4, 0.2], [1.0, 0.0, 0.0]
    verdict = judge(name, [[p, p]], [[1]], [[q]], 0.3)
    assert (verdict.n_accepted.item(), verdict.next_token.item()) == (0, 0)


@pytest.mark.parametrize("name", LOSSLESS)
@pytest.mark.parametrize("strange", [-1, 2, 7])
def test_b10_padding_is_never_accepted_nor_emitted(name, strange):
    ids = [[1, 0, 1, strange, strange]]
    for u in np.linspace(0, 1, 50, endpoint=False):
        verdict = judge(name, [[[0.5, 0.5]] * 6], ids, u=float(u))
        assert verdict.n_accepted.item() <= 3
        assert verdict.next_token.item() in (0, 1)

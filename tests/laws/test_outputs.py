"""Laws of rounds: how they are numbered, chained and compared, against plain enumeration."""

from collections import defaultdict
from itertools import product

import pytest
import torch

from specbench.laws.codes import BrokenOutputError, encode
from specbench.laws.outputs import RoundLaw, conditional_distance, distance, gather, own_law

ROWS = torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [0.0, 0.125, 0.875]])


def made_up():
    """A round of one or two tokens, with other chances behind every start."""
    generator = torch.Generator().manual_seed(1)
    whole = torch.rand(3, 12, generator=generator, dtype=torch.float64)
    one, two = (whole / whole.sum(1, keepdim=True)).split([3, 9], 1)
    return RoundLaw((one.contiguous(), two.contiguous()))


def number(path):
    return int("".join(map(str, path)), 3)


def test_codes_and_sequences_are_one_to_one():
    paths = [p for n in (1, 2, 3) for p in product(range(3), repeat=n)]
    tokens = torch.tensor([[*path, *[-1] * (3 - len(path))] for path in paths])
    assert sorted(encode(tokens, 3).tolist()) == list(range(3 + 9 + 27))
    mass = torch.rand(len(paths), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    start = torch.ones(len(paths), dtype=torch.int64)
    law = gather(start, encode(tokens, 3), mass, 3, 3)
    assert law.behind(1) == pytest.approx(dict(zip(paths, mass.tolist(), strict=True)))


@pytest.mark.parametrize("row", [[-1, -1], [0, 3], [-1, 1], [4, -1], [-2, -1]])
def test_what_is_no_sequence_of_tokens_is_refused_by_its_row(row):
    tokens = torch.tensor([[0, -1], row])
    with pytest.raises(BrokenOutputError) as caught:
        encode(tokens, 3)
    assert str(row) in str(caught.value)


def test_reach_and_mean_are_sums_over_longer_rounds():
    law = made_up()
    for start in range(3):
        exact = law.behind(start)
        for token in range(3):
            own = sum(p for path, p in exact.items() if path[0] == token)
            assert float(law.reach(1)[start, token]) == pytest.approx(own)
        longer = sum(p for path, p in exact.items() if len(path) == 2)
        assert float(law.emits(2)[start]) == pytest.approx(longer)
        assert float(law.emits(3)[start]) == 0
        assert float(law.mean_tokens()[start]) == pytest.approx(1 + longer)


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_rounds_one_after_another(length):
    law = made_up()
    for start in range(3):
        expected = defaultdict(float)
        open_ends = {(): 1.0}
        while open_ends:
            following = defaultdict(float)
            for prefix, mass in open_ends.items():
                for tail, p in law.behind(prefix[-1] if prefix else start).items():
                    longer = prefix + tail
                    into = expected if len(longer) >= length else following
                    into[longer[:length]] += mass * p
            open_ends = following
        chained = law.chained(length)[start]
        assert float(chained.sum()) == pytest.approx(1.0)
        for path, mass in expected.items():
            assert float(chained[number(path)]) == pytest.approx(mass)


def test_the_target_by_itself():
    law = own_law(ROWS, 3)
    assert float(law[0, number((1, 2, 2))]) == pytest.approx(0.5 * 0.5 * 0.875)
    assert law.sum(1).tolist() == pytest.approx([1.0] * 3)


def test_distance_is_the_worst_total_variation():
    one = torch.tensor([[0.5, 0.5], [1.0, 0.0]])
    other = torch.tensor([[0.4, 0.6], [0.7, 0.3]])
    assert distance(one, other) == pytest.approx(0.3)


def rejection_by_hand(target, draft):
    """One draft from context-free rows: accept with min(1, p / q), else the residual."""
    size = len(target)
    rest = [max(p - q, 0.0) for p, q in zip(target, draft, strict=True)]
    missing = 1 - sum(min(p, q) for p, q in zip(target, draft, strict=True))
    one = torch.tensor([[missing * r / sum(rest) for r in rest]], dtype=torch.float64)
    both = [min(p, q) * after for p, q in zip(target, draft, strict=True) for after in target]
    two = torch.tensor([both], dtype=torch.float64)
    return RoundLaw((one.expand(size, -1).contiguous(), two.expand(size, -1).contiguous()))


def test_tokens_are_judged_where_their_place_is_reached():
    """ALGORITHMS 1.8: right where reached, although rounds of one token alone are biased."""
    target, draft = [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]
    rows = torch.tensor([target] * 3)
    law = rejection_by_hand(target, draft)
    assert conditional_distance(law, [rows, rows]) < 1e-7
    alone = law.exact[0][0] / law.exact[0][0].sum()
    assert alone.tolist() == pytest.approx([1.0, 0.0, 0.0])


def test_conditional_distance_weighs_by_the_chance_to_get_there():
    target = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
    one = torch.tensor([[0.25, 0.25]] * 2, dtype=torch.float64)
    # Half of all rounds go on, behind token 0 as they should, behind token 1 to token 1 alone.
    two = torch.tensor([[0.125, 0.125, 0.0, 0.25]] * 2, dtype=torch.float64)
    found = conditional_distance(RoundLaw((one, two)), [target, target])
    assert found == pytest.approx(0.25 * 0.5)

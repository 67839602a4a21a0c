"""Lossless chain rules give the target's law over several rounds, to the last digit."""

import pytest
import torch

from specbench.verify.greedy import RULE as GREEDY
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from tests.laws.integrate import (
    Tables,
    block_law,
    chained,
    distance,
    first_token,
    grid,
    plain_law,
)


def eighths(*rows):
    return torch.tensor(rows, dtype=torch.float32) / 8


# Entries in eighths, drafts with powers of two: ratios lie on a grid of 1/8. Residuals of the
# dense drafts sum to 1, 2, 4, 6 or 8 eighths, which a grid of 1/24 resolves; 1/840 resolves any.
THREE = (eighths([4, 3, 1], [0, 8, 0], [2, 2, 4]), eighths([2, 4, 2], [8, 0, 0], [2, 2, 4]))
FOUR = (
    eighths([1, 1, 2, 4], [3, 1, 0, 4], [0, 0, 4, 4], [2, 2, 2, 2]),
    eighths([4, 2, 1, 1], [4, 4, 0, 0], [0, 0, 4, 4], [8, 0, 0, 0]),
)
FIVE = (
    eighths([2, 2, 2, 1, 1], [0, 3, 3, 1, 1], [8, 0, 0, 0, 0], [1, 1, 4, 1, 1], [0, 0, 0, 0, 8]),
    eighths([4, 1, 1, 1, 1], [2, 2, 2, 1, 1], [0, 0, 4, 2, 2], [1, 1, 4, 1, 1], [0, 0, 0, 0, 8]),
)
DENSE = [(*THREE, 1), (*THREE, 2), (*THREE, 3), (*FOUR, 1), (*FOUR, 2), (*FIVE, 1)]
ONE_HOT = [
    (THREE[0], [0, 0, 2], 1),
    (THREE[0], [0, 1, 0], 2),
    (FOUR[0], [3, 3, 0, 1], 2),
    (FOUR[0], [2, 2, 2, 2], 2),
    (FIVE[0], [0, 1, 3, 2, 4], 1),
]
EXACT = 1e-6
"""Total variation that the float32 rows of a rule may add."""
RULES = [(REJECTION, False), (TARGET_MATCH, True)]


def tables(target, draft):
    last = 24 if isinstance(draft, torch.Tensor) else 840
    return Tables(target, draft, grid(8), grid(last), grid(8))


def three_rounds(rule, own, setting, k, start):
    """Law of so many tokens that no fewer than three rounds can emit them."""
    length = 2 * (k + 1) + 1
    law = chained(lambda before: block_law(rule, setting, before, k, own=own), start, length)
    return law, plain_law(setting.target, start, length)


@pytest.mark.parametrize(("rule", "own"), RULES)
@pytest.mark.parametrize(("target", "draft", "k"), DENSE + ONE_HOT)
def test_three_rounds_have_the_law_of_the_target(rule, own, target, draft, k):
    setting = tables(target, draft)
    for start in range(len(target)):
        law, plain = three_rounds(rule, own, setting, k, start)
        assert distance(law, plain) < EXACT


@pytest.mark.parametrize("rule", [GREEDY, REJECTION, TARGET_MATCH])
@pytest.mark.parametrize("draft", [THREE[1], [1, 1, 0]])
def test_at_temperature_zero_every_rule_emits_the_argmax(rule, draft):
    target = THREE[0]
    setting = Tables(target, draft, grid(2), grid(2), grid(2), greedy=True)
    block = lambda before: block_law(rule, setting, before, 2, own=True)  # noqa: E731
    for start in range(3):
        output, token = [], start
        for _ in range(7):
            token = int(target[token].argmax())
            output.append(token)
        assert chained(block, start, 7) == pytest.approx({tuple(output): 1.0})


@pytest.mark.parametrize(("rule", "own"), RULES)
@pytest.mark.parametrize("strange", [-1, 4, 9])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("dense", [True, False])
def test_holes_and_ids_out_of_range_are_rejected_without_bias(rule, own, strange, place, dense):
    target = FOUR[0]
    setting = tables(target, FOUR[1] if dense else [0, 0, 2, 3])
    for start in range(4):
        known = setting.drafts(start, place)
        drafts = [((*path, strange, *[0] * (1 - place)), mass) for path, mass in known]
        law = block_law(rule, setting, start, 2, own=own, drafts=drafts)
        assert max(map(len, law)) <= place + 1
        assert first_token(law, 4) == pytest.approx(target[start].tolist(), abs=1e-6)
        # ALGORITHMS 1.8: every later token given its prefix, where the round reaches it.
        for size in range(1, place + 1):
            reached = {path: p for path, p in law.items() if len(path) > size}
            for before in {path[:size] for path in reached}:
                mass = [
                    sum(p for path, p in reached.items() if path[: size + 1] == (*before, token))
                    for token in range(4)
                ]
                expected = target[before[-1]].tolist()
                assert [m / sum(mass) for m in mass] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("rule", "own"), RULES)
def test_a_draft_of_length_zero_is_plain_sampling(rule, own):
    setting = tables(*FOUR)
    for start in range(4):
        law = block_law(rule, setting, start, 0, own=own)
        assert distance(law, plain_law(FOUR[0], start, 1)) < EXACT


@pytest.mark.parametrize(("rule", "own"), RULES)
def test_arguments_are_left_alone(rule, own):
    setting = tables(*FOUR)
    target, draft = setting.target.clone(), setting.draft.clone()
    block_law(rule, setting, 0, 2, own=own)
    assert torch.equal(setting.target, target)
    assert torch.equal(setting.draft, draft)

import numpy as np
import pytest

from specbench.core.quantity import Quantity, nothing
from specbench.quality.paired import (
    in_words,
    mean_difference,
    p_value,
    share,
    share_difference,
)
from specbench.quality.pairs import pair
from specbench.quality.score import Scored
from specbench.stats.proportion import wilson
from tests.quality.made import answer


def scored(value, **key):
    return Scored(answer("", **key), "quality_json", value)


def test_pairs_are_joined_by_request_and_the_rest_is_counted():
    arm = [scored(1.0, item=item) for item in "cab"]
    plain = [scored(0.0, item=item, arm="plain") for item in "bcd"]
    found = pair(arm, plain)
    assert found.items == ("suite/c", "suite/b")
    assert [each.answer.arm for each in found.plain] == ["plain", "plain"]
    assert found.dropped == 2


@pytest.mark.parametrize("other", [{"turn": 1}, {"temperature": 0.7}, {"repeat": 1}])
def test_another_request_is_no_pair(other):
    found = pair([scored(1.0)], [scored(1.0, arm="plain", **other)])
    assert (found.arm, found.dropped) == ((), 2)


def test_one_request_twice_is_an_error():
    with pytest.raises(ValueError, match="two answers to one request"):
        pair([scored(1.0), scored(0.0)], [])


def h11():
    """1319 items, 27 of them discordant: 9 right only in the arm, 18 only in plain."""
    arm = [1.0] * 9 + [0.0] * 18 + [1.0] * 1000 + [0.0] * 292
    plain = [0.0] * 9 + [1.0] * 18 + [1.0] * 1000 + [0.0] * 292
    return arm, plain, [str(index) for index in range(1319)]


def test_h11_is_no_difference():
    p = p_value(*h11(), seed=0)
    assert p.number() == pytest.approx(0.122, abs=5e-4)
    assert p.method == "McNemar exact: right only in the arm 9, only in plain 18"
    gap = share_difference(*h11(), seed=0)
    assert gap.number() == pytest.approx(-9 / 1319)
    assert gap.low < 0 < gap.high
    assert gap.n == 1319
    # normal interval of a paired difference: discordant share less the squared difference
    half = 1.959964 * np.sqrt((27 / 1319 - (9 / 1319) ** 2) / 1319)
    assert gap.high - gap.low == pytest.approx(2 * half, rel=0.1)
    assert in_words(gap, p) == "no difference shown (p = 0.12, 1319 items)"


def test_verdicts_in_words():
    sure = Quantity(0.003, "1", n=40)
    assert in_words(Quantity(-0.2, "1"), sure) == "worse (p = 0.003, 40 items)"
    assert in_words(Quantity(0.2, "1"), sure) == "better (p = 0.003, 40 items)"
    assert in_words(nothing("no plain", "1"), sure) == "nothing to measure: no plain"
    assert in_words(Quantity(0.2, "1"), nothing("no p", "1")) == "nothing to measure: no p"


def test_answers_to_one_item_are_no_independent_evidence():
    # 3 items, each answered 10 times; the arm is right in all of one item, plain in none
    items = [item for item in "abc" for _ in range(10)]
    arm, plain = [1.0] * 10 + [0.0] * 20, [0.0] * 30
    p = p_value(arm, plain, items, seed=0)
    # of the 8 swaps all leave a difference of 10 or -10
    assert (p.number(), p.n) == (1.0, 3)
    gap = share_difference(arm, plain, items, seed=0)
    assert (gap.number(), gap.n) == (pytest.approx(1 / 3), 3)
    assert gap.low <= 0.0


def test_other_scores_than_right_and_wrong_are_permuted():
    items = list("abc")
    # 3 of 3 in one direction: 2 of the 8 swaps are as extreme
    assert p_value([2, 3, 4], [1, 1, 1], items, seed=0).number() == pytest.approx(2 / 8)


def test_no_difference_in_any_item_is_not_a_difference_of_exactly_zero():
    items = [str(index) for index in range(59)]
    same = [1.0] * 20 + [0.0] * 39
    gap = share_difference(same, same, items, seed=0)
    assert (gap.number(), gap.n) == (0.0, 59)
    # with a share of differing items at the limit, 59 items without one have probability 0.05
    assert (1 - gap.high) ** 59 == pytest.approx(0.05)
    assert gap.low == -gap.high
    assert p_value(same, same, items, seed=0).number() == 1.0
    points = mean_difference(same, same, items, seed=0, unit="points")
    assert (points.number(), points.low, points.unit) == (0.0, None, "points")
    assert "59 items score equal" in points.method


def test_nothing_is_paired():
    assert not mean_difference([], [], [], seed=0, unit="1").known
    assert not share_difference([], [], [], seed=0).known
    assert p_value([], [], [], seed=0).value.reason == "no request was answered by both arms"


def test_shares():
    assert share([1.0, 0.0, 1.0], list("abc"), seed=0) == wilson(2, 3)
    # equal answers to few items are few observations
    assert share([1.0] * 6, list("aabbcc"), seed=0) == wilson(3, 3)
    mixed = share([1.0, 0.0, 1.0, 1.0, 0.0, 0.0], list("aabbcc"), seed=0)
    assert (mixed.number(), mixed.n) == (0.5, 3)
    assert "bootstrap" in mixed.method

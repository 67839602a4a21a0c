"""Case A4: the noise floor."""

import math

import numpy as np
import pytest
from scipy import stats

from specbench.fidelity.floor import Agreement, Floor, noise_floor

FLOOR = Agreement(86, 100)


def fisher(arm, reference):
    table = [
        [arm.agree, arm.n - arm.agree],
        [reference.agree, reference.n - reference.agree],
    ]
    return stats.fisher_exact(table, alternative="less").pvalue


def test_the_numbers_of_case_a4():
    near = noise_floor(Agreement(85, 100), FLOOR)
    assert near.verdict is Floor.WITHIN
    assert near.p == pytest.approx(fisher(Agreement(85, 100), FLOOR))
    far = noise_floor(Agreement(60, 100), FLOOR)
    assert far.verdict is Floor.BELOW
    assert far.p == pytest.approx(fisher(Agreement(60, 100), FLOOR))
    assert str(near).startswith(
        "within noise floor: 85/100 agree, reference with itself 86/100, p="
    )
    assert str(far).startswith("below the floor: 60/100 agree")


def test_p_is_a_sum_over_the_hypergeometric_law():
    # 8 comparisons, 5 agree, 4 fall to the arm: at most 2 of the 5.
    ways = [math.comb(5, k) * math.comb(3, 4 - k) for k in range(1, 5)]
    assert noise_floor(Agreement(2, 4), Agreement(3, 4)).p == pytest.approx(
        sum(ways[:2]) / math.comb(8, 4)
    )


def test_the_detectable_drop_has_the_power_it_claims():
    found = noise_floor(Agreement(85, 100), FLOOR)
    most = max(k for k in range(101) if fisher(Agreement(k, 100), FLOOR) <= 0.05)
    rate = 0.86 - found.detectable
    assert stats.binom.cdf(most, 100, rate) == pytest.approx(0.9)
    assert 0.1 < found.detectable < 0.25


def test_a_perfect_floor_excuses_no_disagreement():
    perfect = Agreement(100, 100)
    found = noise_floor(Agreement(99, 100), perfect)
    assert found.verdict is Floor.BELOW
    assert found.p == pytest.approx(0.5)
    same = noise_floor(Agreement(100, 100), perfect)
    assert same.verdict is Floor.WITHIN
    # One disagreement among 100 is seen with 90 % power where 0.1 = rate^100.
    assert same.detectable == pytest.approx(1 - 0.1 ** (1 / 100))
    assert noise_floor(Agreement(98, 100), Agreement(99, 100)).verdict is Floor.WITHIN


def test_what_could_not_have_failed_is_not_within():
    assert noise_floor(Agreement(85, 100), Agreement(0, 0)).verdict is Floor.NONE
    assert str(noise_floor(Agreement(1, 2), Agreement(0, 0))) == (
        "1/2 agree; plain was not repeated, so there is no floor"
    )
    small = noise_floor(Agreement(2, 2), Agreement(1, 2))
    assert (small.verdict, small.detectable) == (Floor.TOO_FEW, None)
    assert noise_floor(Agreement(0, 0), FLOOR).verdict is Floor.TOO_FEW
    with pytest.raises(ValueError, match=r"0\.\.2"):
        Agreement(3, 2)


def test_the_level_holds_at_the_edge_of_an_imperfect_floor():
    rng = np.random.default_rng(3)
    below = 0
    for _ in range(400):
        arm, reference = (Agreement(int(k), 50) for k in rng.binomial(50, 0.8, 2))
        below += noise_floor(arm, reference).verdict is Floor.BELOW
    assert below <= stats.binom.ppf(0.999, 400, 0.05)

"""Bootstrap-t against the textbook's formula, and where it stands back for other intervals."""

import numpy as np
import pytest

from specbench.stats.bootstrap import RESAMPLES, interval, ratio_interval, total_ratio
from specbench.stats.ratios import RATIO_OF_RATIOS


def resampled(units):
    """Index draws of the resamples that ``stats.resamples.drawn(units, RESAMPLES, 0)`` counts."""
    return np.random.default_rng(0).integers(0, units, (RESAMPLES, units))


def reach(level, value, spread, values, spreads):
    """Hall 1988: of |t|, without an end of its own for each tail."""
    return np.quantile(abs(values - value) / spreads, level, method="inverted_cdf") * spread


def test_of_a_mean_by_its_logarithm():
    sample = np.random.default_rng(5).lognormal(0, 1, 14)
    drawn = sample[resampled(14)]

    def measured(values):
        # The deviation of the logarithm is the relative one.
        mean = values.mean(axis=-1)
        return np.log(mean), values.std(axis=-1) / 14**0.5 / mean

    half = reach(0.95, *measured(sample), *measured(drawn))
    found = total_ratio(sample, np.ones(14), seed=0, unit="ms")
    ends = sample.mean() * np.exp([-half, half])
    assert [found.low, found.high] == pytest.approx(ends, rel=1e-6)
    assert found.method == "bootstrap-t over 14 units"


def test_of_what_may_be_negative_as_it_is():
    sample = np.random.default_rng(7).normal(0.3, 1, 14)
    drawn = sample[resampled(14)]
    half = reach(
        0.9, sample.mean(), sample.std() / 14**0.5, drawn.mean(axis=1), drawn.std(axis=1) / 14**0.5
    )
    found = total_ratio(sample, np.ones(14), seed=0, unit="ms", level=0.9)
    assert [found.low, found.high] == pytest.approx([sample.mean() - half, sample.mean() + half])


def test_of_a_ratio_of_totals_with_the_spread_of_its_residuals():
    rng = np.random.default_rng(6)
    steps = rng.integers(10, 80, 20).astype(float)
    tokens = steps * rng.lognormal(0.4, 0.3, 20)

    def measured(top, bottom):
        ratio = top.sum(axis=-1) / bottom.sum(axis=-1)
        rest = top - ratio[..., None] * bottom
        return np.log(ratio), np.sqrt((rest**2).sum(axis=-1)) / top.sum(axis=-1)

    index = resampled(20)
    half = reach(0.95, *measured(tokens, steps), *measured(tokens[index], steps[index]))
    found = total_ratio(tokens, steps, seed=0, unit="tokens/step")
    ends = found.number() * np.exp([-half, half])
    assert [found.low, found.high] == pytest.approx(ends, rel=1e-6)


def test_of_a_speedup_over_another_by_the_move_of_each_unit():
    rng = np.random.default_rng(10)
    columns = [rng.lognormal(0, 0.4, 9) for _ in range(8)]
    signs = (1, -1, -1, 1, -1, 1, 1, -1)

    def measured(drawn):
        # Of a sum of logarithms of totals, each unit moves every one by its share.
        totals = [column.sum(axis=-1) for column in drawn]
        moves = sum(
            sign * column / total[..., None]
            for sign, column, total in zip(signs, drawn, totals, strict=True)
        )
        value = sum(sign * np.log(total) for sign, total in zip(signs, totals, strict=True))
        return value, np.sqrt((moves**2).sum(axis=-1))

    index = resampled(9)
    value, spread = measured(columns)
    half = reach(0.95, value, spread, *measured([column[index] for column in columns]))
    found = interval(columns, RATIO_OF_RATIOS.over(RATIO_OF_RATIOS), 0, "x", 0.95)
    assert [found.low, found.high] == pytest.approx(np.exp([value - half, value + half]), rel=1e-10)


def test_arms_that_differ_hardly_are_measured_as_well():
    # Ten units that differ by a millionth, which squares of tokens would hide.
    rng = np.random.default_rng(11)
    steps = rng.integers(10, 80, 10).astype(float)
    other = steps * (1 + 1e-6 * rng.normal(0, 1, 10))

    def measured(top, bottom):
        value = np.log(top.sum(axis=-1)) - np.log(bottom.sum(axis=-1))
        rest = top / top.sum(axis=-1)[..., None] - bottom / bottom.sum(axis=-1)[..., None]
        return value, np.sqrt((rest**2).sum(axis=-1))

    index = resampled(10)
    half = reach(0.95, *measured(other, steps), *measured(other[index], steps[index]))
    found = total_ratio(other, steps, seed=0, unit="x")
    assert [found.low, found.high] == pytest.approx(
        found.number() * np.exp([-half, half]), abs=1e-9
    )
    assert 1e-7 < half < 1e-5


def test_a_ratio_and_its_reciprocal_say_the_same():
    times, tokens = np.random.default_rng(8).lognormal(0, 0.6, (2, 15))
    one = total_ratio(times, tokens, seed=0, unit="ms")
    other = total_ratio(tokens, times, seed=0, unit="1/ms")
    assert (1 / other.high, 1 / other.low) == pytest.approx((one.low, one.high), rel=1e-6)


def test_a_tail_of_one_in_a_thousand_is_missed_no_more_often():
    # Means of 16 lognormal values with the deviation 1: skewed, as totals of a prompt are.
    rng, runs, missed = np.random.default_rng(9), 4000, 0
    for number in range(runs):
        one, other = rng.lognormal(0, 1, (2, 16))
        found = ratio_interval(one, np.ones(16), other, np.ones(16), seed=number % 10, level=0.998)
        missed += found.high < 1
    # Three deviations of a share of 1 in 1,000 above it.
    assert missed <= runs * 0.001 + 3 * (runs * 0.001) ** 0.5


def test_one_unit_that_makes_the_spread_widens_it_no_more_than_two_units_would():
    sample = np.append(1 + 0.001 * np.arange(15), 30.0)
    # Student's t of one degree of freedom: tan(0.475 pi), the quantile of a Cauchy distribution.
    spread = sample.std() / 16**0.5 / sample.mean()
    half = np.tan(0.475 * np.pi) * spread
    found = total_ratio(sample, np.ones(16), seed=0, unit="ms")
    ends = sample.mean() * np.exp([-half, half])
    assert [found.low, found.high] == pytest.approx(ends, rel=1e-6)


def test_one_unit_that_makes_all_of_the_spread_does_so_too():
    # (5 / 6) ** 6 = 33 % of the resamples are without it: both arms are the same in them.
    base, ones = np.array([4.0, 7.0, 5.0, 6.0, 4.0, 9.0]), np.ones(6)
    new = base + np.array([0, 0, 0, 0, 0, 3])
    moves = new / new.sum() - base / base.sum()
    half = np.tan(0.475 * np.pi) * np.sqrt((moves**2).sum())
    found = ratio_interval(new, ones, base, ones, seed=0)
    assert found.method == "bootstrap-t over 6 units"
    ends = found.number() * np.exp([-half, half])
    assert [found.low, found.high] == pytest.approx(ends, rel=1e-9)
    # A mean of differences that may be negative is left to another method.
    gaps = [0, 0, -1.0, 0, 0, 0]
    found = total_ratio(gaps, ones, seed=0, unit="points")
    assert found.method == "bootstrap-BCa over 6 units (t undefined)"


def test_resamples_without_the_units_that_differ_are_not_away():
    # Two units take back from each other what they differ by; t is defined nevertheless.
    base, ones = np.array([27.0, 29, 36, 18, 39, 29, 42, 23, 25, 28, 30, 19, 37, 40]), np.ones(14)
    new = base.copy()
    new[[4, 13]] += [1, -1]

    def measured(top, bottom):
        moves = top / top.sum(axis=-1)[..., None] - bottom / bottom.sum(axis=-1)[..., None]
        return np.log(top.sum(axis=-1) / bottom.sum(axis=-1)), np.sqrt((moves**2).sum(axis=-1))

    index = resampled(14)
    with np.errstate(invalid="ignore"):
        values, spreads = measured(new[index], base[index])
        t = np.nan_to_num(abs(values) / spreads)
    half = np.quantile(t, 0.95, method="inverted_cdf") * measured(new, base)[1]
    found = ratio_interval(new, ones, base, ones, seed=0)
    assert found.method == "bootstrap-t over 14 units"
    assert [found.low, found.high] == pytest.approx(np.exp([-half, half]), rel=1e-9)


def test_an_end_that_no_resample_reaches_is_left_to_bca():
    # Without the one success, 0.875 ** 8 = 34 % of the resamples have no spread.
    found = total_ratio([0, 0, 0, 1, 0, 0, 0, 0], [4] * 8, seed=0, unit="1")
    assert found.method == "bootstrap-BCa over 8 units (t undefined)"
    assert found.low <= found.number() <= found.high


def test_it_stays_where_the_ratio_can_be():
    accepted, judged = [1, 3, 8, 2, 5, 1, 2, 4], [9, 8, 9, 7, 8, 6, 9, 9]
    wasted = [whole - part for part, whole in zip(accepted, judged, strict=True)]
    assert total_ratio(accepted, judged, seed=0, unit="1", level=0.998).high == 1
    assert total_ratio(wasted, judged, seed=0, unit="1", level=0.998).low > 0
    # The same numbers as milliseconds per token may be more than 1, and differences below 0.
    assert total_ratio(accepted, judged, seed=0, unit="ms", level=0.998).high > 1
    differences = total_ratio([-1, *accepted[1:]], judged, seed=0, unit="1", level=0.998)
    assert differences.low < 0


@pytest.mark.parametrize(("units", "method"), [(5, "BCa"), (6, "t"), (999, "t"), (1000, "BCa")])
def test_how_many_units_are_few(units, method):
    rng = np.random.default_rng(units)
    tokens, times = rng.lognormal(0, 0.3, (2, units))
    found = ratio_interval(times, tokens, times * 1.1, tokens[::-1], seed=0)
    assert found.method == f"bootstrap-{method} over {units} units"

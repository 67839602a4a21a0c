"""Measures that are worked out together are those of each alone, and of plain numpy."""

import numpy as np
import pytest

from specbench.results.compare import contrast
from specbench.results.compare.compare import compare
from specbench.results.compare.contrast import contrasts
from specbench.results.compare.totals import Absent, Totals
from specbench.stats.ratios import QUOTIENT, RATIO_OF_RATIOS
from tests.results.compare.made import opened, row, write_run

SEED = 5


def totals(rng, units, columns, starts=1):
    """Lognormal columns of both sides; the base is the same for one number of units."""
    base = [np.random.default_rng(units).lognormal(3, 0.3, units) for _ in range(columns)]
    new = [column * rng.lognormal(0.02, 0.1, units) for column in base]
    statistic = QUOTIENT if columns == 2 else RATIO_OF_RATIOS
    groups = np.arange(units) % starts * 1.0
    return Totals("measure", "ms", True, tuple(base), tuple(new), statistic, groups)


@pytest.fixture
def made():
    rng = np.random.default_rng(1)
    found = [totals(rng, units, columns) for units in (12, 40, 2) for columns in (2, 4, 2)]
    equal = Totals("equal", "ms", True, found[0].base, found[0].base, QUOTIENT, found[0].groups)
    return [*found, totals(rng, 40, 2, starts=3), equal, Absent("absent", "ms", False, "why")]


@pytest.mark.parametrize("together", [1, 3, 128])
def test_together_and_one_by_one(made, monkeypatch, together):
    monkeypatch.setattr(contrast, "TOGETHER", together)
    for one, found in zip(made, contrasts(made, SEED), strict=True):
        assert found.measure == one.measure
        if isinstance(one, Absent):
            assert (found.ratio.value.reason, found.p) == ("why", None)
            continue
        ratio, power = one.ratio(SEED), one.detectable(SEED)
        assert (found.base, found.new) == one.values
        assert (found.ratio.method, found.ratio.value) == (ratio.method, ratio.value)
        assert [found.ratio.low, found.ratio.high] == pytest.approx([ratio.low, ratio.high])
        assert found.p == one.p(SEED)
        if found.measure != "equal":
            assert found.detectable.known == power.known
            assert not power.known or found.detectable.value == pytest.approx(power.value)


def moves(base, new, index):
    """Logarithm of a ratio of ratios of the units at ``index``, and what each of them moves."""
    drawn = [column[index] for column in (*new, *base)]
    sums = [column.sum(axis=-1) for column in drawn]
    value = np.log(sums[0] / sums[1] / (sums[2] / sums[3]))
    shares = [column / total[..., None] for column, total in zip(drawn, sums, strict=True)]
    return value, shares[0] - shares[1] - shares[2] + shares[3]


def test_by_plain_numpy():
    one = totals(np.random.default_rng(2), 40, 2)
    (found, _) = contrasts([one, totals(np.random.default_rng(3), 40, 2)], SEED)
    whole, own = moves(one.base, one.new, np.arange(40))
    index = np.random.default_rng(SEED).integers(0, 40, (4999, 40))
    values, each = moves(one.base, one.new, index)
    t = abs(values - whole) / np.sqrt((each**2).sum(axis=1))
    half = np.sort(t)[int(np.ceil(0.95 * 4999)) - 1] * np.sqrt((own**2).sum())
    ends = np.exp([whole - half, whole + half])
    assert [found.ratio.low, found.ratio.high] == pytest.approx(ends, rel=1e-10)
    z = 1.959963984540054 + 0.8416212335729143
    assert found.detectable.value == pytest.approx(np.expm1(z * values.std(ddof=1)))
    swap = np.random.default_rng(SEED).integers(0, 2, (9999, 40), np.uint8)[:, None] == 1
    both = np.stack([one.new, one.base])
    mine, others = np.where(swap, both[::-1, None], both[:, None]).sum(axis=-1)
    swapped = np.log(mine[:, 0] / mine[:, 1] / (others[:, 0] / others[:, 1]))
    beyond = min((swapped >= whole).sum(), (swapped <= whole).sum())
    assert found.p == 2 * (1 + beyond) / 10_000


def test_one_run_with_several_is_each_comparison_by_itself(tmp_path):
    rng = np.random.default_rng(4)
    for name in ("r0", "r1", "r2"):
        rows = [
            row(f"p{n:02}", arm, committed=int(rng.integers(8, 30)), steps=6, ms=float(ms))
            for n, ms in enumerate(rng.lognormal(4, 0.2, 20))
            for arm in ("plain", "a")
        ]
        write_run(tmp_path / name, rows)
    base, *others = (opened(tmp_path / name) for name in ("r0", "r1", "r2"))
    together = compare(base, others, measures=(), by="suite")
    alone = [one for other in others for one in compare(base, [other], measures=(), by="suite")]
    assert [one.new for one in together] == ["r1:a", "r2:a"]
    for one, other in zip(together, alone, strict=True):
        assert (one.base, one.new, one.notes) == (other.base, other.new, other.notes)
        pairs = zip(one.parts[0].judged, other.parts[0].judged, strict=True)
        for found, expected in pairs:
            assert (found.verdict, found.p) == (expected.verdict, expected.p)
            ends = [expected.contrast.ratio.low, expected.contrast.ratio.high]
            assert [found.contrast.ratio.low, found.contrast.ratio.high] == pytest.approx(ends)

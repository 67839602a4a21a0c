"""Lossy rules have exactly the law of their published formula, and say that they are lossy."""

import math

import pytest

from specbench.decoding.protocols import Lossless
from specbench.errors import UsageError
from specbench.verify.blockwise import RULE as BLOCKWISE
from specbench.verify.lenient import RULE as LENIENT
from specbench.verify.threshold import RULE as THRESHOLD
from specbench.verify.typical import RULE as TYPICAL
from tests.laws.laws_of import first_token, kept, law_of

GOLDEN = [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]  # ALGORITHMS 1.1


@pytest.mark.parametrize(
    ("lenience", "acceptance", "output"),
    [
        (0.9, 0.7555555556, [0.4444444444, 0.3333333333, 0.2222222222]),
        (0.8, 0.825, [0.375, 0.375, 0.25]),
        (0.6, 1.0, [0.2, 0.5, 0.3]),
        (1.0, 0.7, [0.5, 0.3, 0.2]),
    ],
)
def test_lenience_has_the_published_law(lenience, acceptance, output):
    law = law_of(LENIENT.configure({"lenience": lenience}), *GOLDEN)
    assert first_token(law) == pytest.approx(output, abs=1e-6)
    assert kept(law, 1) == pytest.approx(acceptance, abs=1e-6)


def test_lenience_with_an_argmax_draft_stays_within_its_bound():
    # ALGORITHMS 1.3: no position is off by more than 1 - l in total variation.
    law = first_token(law_of(LENIENT.configure({"lenience": 0.8}), GOLDEN[0], 1))
    assert law[1] == pytest.approx(0.3 / 0.8, abs=1e-6)
    assert sum(abs(a - b) for a, b in zip(law, GOLDEN[0], strict=True)) / 2 <= 0.2 + 1e-6


@pytest.mark.parametrize(("token", "passes"), [(0, True), (1, True), (2, False)])
def test_lenience_at_temperature_zero_compares_with_the_largest(token, passes):
    # log(p) serves as logits, so temperature 1 gives the rows back: 0.41 >= 0.8 * 0.5 > 0.09.
    law = law_of(LENIENT.configure({"lenience": 0.8}), [0.5, 0.41, 0.09], token, temperature=0.0)
    assert law.behind(0) == pytest.approx({(token, 0) if passes else (0,): 1.0})


def test_b7_a_draft_above_the_threshold_is_always_kept_and_one_below_never():
    entropy = -sum(p * math.log(p) for p in (0.5, 0.3, 0.2))
    assert entropy == pytest.approx(1.0297, abs=1e-4)
    assert min(0.3, 0.6 * math.exp(-entropy)) == pytest.approx(0.2143, abs=1e-4)
    rule = TYPICAL.configure({"epsilon": 0.3, "delta": 0.6})
    for token, expected in ((1, [0.0, 1.0, 0.0]), (2, [1.0, 0.0, 0.0])):
        law = first_token(law_of(rule, [0.5, 0.3, 0.2], token))
        assert law == pytest.approx(expected)
        if token == 1:
            off = sum(abs(a - b) for a, b in zip(law, [0.5, 0.3, 0.2], strict=True)) / 2
            assert off == pytest.approx(0.7)


def test_typical_binds_by_epsilon_at_low_entropy():
    """H < ln(delta / epsilon) = 1.204: the default threshold is epsilon = 0.09."""
    for token, passes in ((1, True), (2, False)):
        law = law_of(TYPICAL.configure({}), [0.89, 0.095, 0.015], token)
        assert law.behind(0) == pytest.approx({(token, 0) if passes else (0,): 1.0})


@pytest.mark.parametrize(
    ("options", "acceptance", "output"),
    [
        # out(x) = min(1, p(x) / acc), the rest shared in proportion to the target.
        ({"acc": 0.8, "single": 1}, 0.375, [0.4464285714, 0.375, 0.1785714286]),
        ({"acc": 0.25, "single": 1}, 1.0, [0.0, 1.0, 0.0]),
        ({"acc": 1, "single": 0.3}, 1.0, [0.0, 1.0, 0.0]),
        ({"acc": 1, "single": 1}, 0.3, [0.5, 0.3, 0.2]),
    ],
)
def test_threshold_has_the_published_law(options, acceptance, output):
    """ALGORITHMS 1.11, target (.5, .3, .2), candidate 1."""
    law = law_of(THRESHOLD.configure(options), [0.5, 0.3, 0.2], 1)
    assert first_token(law) == pytest.approx(output, abs=1e-6)
    assert kept(law, 1) == pytest.approx(acceptance, abs=1e-6)


@pytest.mark.parametrize(
    ("options", "token", "law"),
    [
        ({"top_k": 1}, 1, {(0,): 1.0}),
        ({"top_k": 1}, 0, {(0, 0): 1.0}),
        ({"top_k": 2}, 1, {(1, 0): 1.0}),
        ({"top_k": 2}, 2, {(0,): 1.0}),
        ({"top_k": 1, "minimum": 1}, 2, {(2, 0): 1.0}),
    ],
)
def test_blockwise_keeps_what_ranks_high_enough(options, token, law):
    rule = BLOCKWISE.configure(options)
    found = law_of(rule, [0.5, 0.3, 0.2], token, temperature=0.0)
    assert found.behind(0) == pytest.approx(law)


def test_lossy_rules_say_so_unless_their_parameters_make_them_exact():
    for rule in (LENIENT, TYPICAL, THRESHOLD, BLOCKWISE):
        assert rule.info.lossless_with({}) is Lossless.LOSSY
    assert LENIENT.info.lossless_with({"lenience": 1}) is Lossless.PROVEN
    assert THRESHOLD.info.lossless_with({"acc": 1}) is Lossless.PROVEN
    assert THRESHOLD.info.lossless_with({"acc": 1, "single": 0.9}) is Lossless.LOSSY
    assert BLOCKWISE.info.lossless_with({"top_k": 1}) is Lossless.PROVEN
    assert TYPICAL.info.lossless_with({"epsilon": 1}) is Lossless.LOSSY


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lenience": 0}, r"lenience = 0 is out of range"),
        ({"lenience": 1.1}, r"lenience = 1.1 is out of range"),
        ({"lenience": "much"}, r"lenience = 'much' is out of range"),
        ({"leniency": 0.9}, r"no parameter 'leniency'"),
    ],
)
def test_bad_parameters_are_refused_by_name(options, message):
    with pytest.raises(UsageError, match=message):
        LENIENT.configure(options)

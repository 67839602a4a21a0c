"""Lossy rules have exactly the law of their published formula, and say that they are lossy."""

import math

import pytest
import torch

from specbench.decoding.protocols import Lossless
from specbench.errors import UsageError
from specbench.verify.blockwise import RULE as BLOCKWISE
from specbench.verify.lenient import RULE as LENIENT
from specbench.verify.threshold import RULE as THRESHOLD
from specbench.verify.typical import RULE as TYPICAL
from tests.laws.integrate import Tables, block_law, cells, distance, first_token

GOLDEN = [0.5, 0.3, 0.2], [0.2, 0.5, 0.3]  # ALGORITHMS 1.1


def constant(p, q, accept, last):
    """The same rows at every position; ``q`` a row or the token an argmax draft takes."""
    target = torch.tensor([p] * len(p))
    draft = [q] * len(p) if isinstance(q, int) else torch.tensor([q] * len(p))
    return Tables(target, draft, cells(accept), cells(last), cells([0.0]))


def lenient_law(p, q, lenience):
    """out = m + (1 - sum m) norm(relu(p - l q)), m = min(q, p / l) (ALGORITHMS 1.3), by hand."""
    kept = [min(b, a / lenience) for a, b in zip(p, q, strict=True)]
    rest = [max(a - lenience * b, 0.0) for a, b in zip(p, q, strict=True)]
    total = sum(rest)
    missing = 1 - sum(kept)
    law = [k + (missing * r / total if total > 0 else 0.0) for k, r in zip(kept, rest, strict=True)]
    borders = [a / (lenience * b) for a, b in zip(p, q, strict=True) if b > 0]
    steps = [sum(rest[: i + 1]) / total for i in range(len(rest))] if total > 0 else []
    return law, sum(kept), borders, steps


@pytest.mark.parametrize(
    ("lenience", "acceptance", "output"),
    [
        (0.9, 0.7555555556, [0.4444444444, 0.3333333333, 0.2222222222]),
        (0.8, 0.825, [0.375, 0.375, 0.25]),
        (0.6, 1.0, [0.2, 0.5, 0.3]),
    ],
)
def test_lenience_has_the_published_law(lenience, acceptance, output):
    p, q = GOLDEN
    expected, kept, borders, steps = lenient_law(p, q, lenience)
    assert expected == pytest.approx(output, abs=1e-9)
    assert kept == pytest.approx(acceptance, abs=1e-9)
    setting = constant(p, q, borders, [*steps, 0.5, 0.8])
    law = block_law(LENIENT.configure({"lenience": lenience}), setting, 0, 1)
    assert first_token(law, 3) == pytest.approx(output, abs=1e-6)
    assert sum(m for path, m in law.items() if len(path) == 2) == pytest.approx(
        acceptance, abs=1e-6
    )


def test_lenience_one_is_exact():
    p, q = GOLDEN
    _, _, borders, steps = lenient_law(p, q, 1.0)
    law = block_law(
        LENIENT.configure({"lenience": 1}), constant(p, q, borders, [*steps, 0.5, 0.8]), 0, 1
    )
    assert first_token(law, 3) == pytest.approx(p, abs=1e-6)


def test_lenience_with_an_argmax_draft_follows_the_same_formula():
    p, one_hot = [0.5, 0.3, 0.2], [0.0, 1.0, 0.0]
    expected, _, borders, steps = lenient_law(p, one_hot, 0.8)
    law = block_law(LENIENT.configure({"lenience": 0.8}), constant(p, 1, borders, steps), 0, 1)
    assert first_token(law, 3) == pytest.approx(expected, abs=1e-6)
    # ALGORITHMS 1.3: no position is off by more than 1 - l.
    assert sum(abs(a - b) for a, b in zip(expected, p, strict=True)) / 2 <= 0.2 + 1e-12


@pytest.mark.parametrize(("token", "kept"), [(0, True), (1, True), (2, False)])
def test_lenience_at_temperature_zero_compares_with_the_largest(token, kept):
    target = torch.tensor([[0.5, 0.41, 0.09]] * 3)
    setting = Tables(target, [token] * 3, cells([0.0]), cells([0.0]), cells([0.0]), greedy=True)
    law = block_law(LENIENT.configure({"lenience": 0.8}), setting, 0, 1)
    # log(p) serves as logits, so temperature 1 gives the rows back: 0.41 >= 0.8 * 0.5 > 0.09.
    assert law == pytest.approx({(token, 0) if kept else (0,): 1.0})


def test_b7_a_draft_above_the_threshold_is_always_kept_and_one_below_never():
    entropy = -sum(p * math.log(p) for p in (0.5, 0.3, 0.2))
    assert entropy == pytest.approx(1.0297, abs=1e-4)
    assert min(0.3, 0.6 * math.exp(-entropy)) == pytest.approx(0.2143, abs=1e-4)
    rule = TYPICAL.configure({"epsilon": 0.3, "delta": 0.6})
    for token, expected in ((1, [0.0, 1.0, 0.0]), (2, [1.0, 0.0, 0.0])):
        law = block_law(rule, constant([0.5, 0.3, 0.2], token, [0.0], [0.0]), 0, 1)
        assert first_token(law, 3) == pytest.approx(expected)
    assert distance({(1,): 1.0}, {(0,): 0.5, (1,): 0.3, (2,): 0.2}) == pytest.approx(0.7)


def test_typical_binds_by_epsilon_at_low_entropy():
    """H < ln(delta / epsilon) = 1.204: the default threshold is epsilon = 0.09."""
    p = [0.89, 0.095, 0.015]
    for token, kept in ((1, True), (2, False)):
        law = block_law(TYPICAL.configure({}), constant(p, token, [0.0], [0.0]), 0, 1)
        assert law == pytest.approx({(token, 0) if kept else (0,): 1.0})


@pytest.mark.parametrize(
    ("options", "kept", "output"),
    [
        # out(x) = min(1, p(x) / acc), the rest shared in proportion to the target.
        ({"acc": 0.8, "single": 1}, 0.375, [0.4464285714, 0.375, 0.1785714286]),
        ({"acc": 0.25, "single": 1}, 1.0, [0.0, 1.0, 0.0]),
        ({"acc": 1, "single": 0.3}, 1.0, [0.0, 1.0, 0.0]),
        ({"acc": 1, "single": 1}, 0.3, [0.5, 0.3, 0.2]),
    ],
)
def test_threshold_has_the_published_law(options, kept, output):
    """ALGORITHMS 1.11, target (.5, .3, .2), candidate 1."""
    setting = constant([0.5, 0.3, 0.2], 1, [kept], [0.5 / 0.7, 0.5, 0.8])
    law = block_law(THRESHOLD.configure(options), setting, 0, 1)
    assert first_token(law, 3) == pytest.approx(output, abs=1e-6)
    assert sum(m for path, m in law.items() if len(path) == 2) == pytest.approx(kept, abs=1e-6)


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
    target = torch.tensor([[0.5, 0.3, 0.2]] * 3)
    setting = Tables(target, [token] * 3, cells([0.0]), cells([0.0]), cells([0.0]), greedy=True)
    assert block_law(BLOCKWISE.configure(options), setting, 0, 1) == pytest.approx(law)


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

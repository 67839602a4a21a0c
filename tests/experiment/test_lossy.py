"""Lossy rules stand beside lossless ones only where somebody asked for it."""

import pytest

from specbench.core.arm import ArmSpec
from specbench.errors import UsageError
from specbench.experiment.arms import check_arms

PLAIN = ArmSpec("plain")
EXACT = ArmSpec("exact", "ngram", 3, "rejection")
TYPICAL = ArmSpec("loose", "ngram", 3, "typical")


def test_the_refusal_names_both_arms_and_both_rules():
    with pytest.raises(UsageError) as refused:
        check_arms([PLAIN, EXACT, TYPICAL], [0.7])
    assert "arm loose (rule typical: lossy)" in refused.value.message
    assert "arm exact (rule rejection: proven)" in refused.value.message
    assert "--allow-lossy" in refused.value.hint


def test_a_lossy_arm_beside_plain_alone_is_refused_as_well():
    with pytest.raises(UsageError, match=r"arm loose .* arm plain \(plain decoding: proven\)"):
        check_arms([PLAIN, TYPICAL], [0.7])


def test_asking_is_enough():
    factors = check_arms([PLAIN, EXACT, TYPICAL], [0.7], allow_lossy=True)
    assert [arm.lossless for arm in factors] == ["proven", "proven", "lossy"]


def test_a_lossy_rule_with_exact_parameters_needs_no_asking():
    arm = ArmSpec("exact", "ngram", 3, "lenient", rule_options={"lenience": 1.0})
    assert check_arms([PLAIN, arm], [0.7])[1].lossless == "proven"


@pytest.mark.parametrize(
    ("rule", "options", "message"),
    [
        ("lenient", {"lenience": 1.5}, "rule lenient: lenience = 1.5 is out of range"),
        ("typical", {"alpha": 0.3}, "rule typical has no parameter 'alpha'"),
    ],
)
def test_parameters_are_checked_before_anything_else(rule, options, message):
    arm = ArmSpec("loose", "ngram", 3, rule, rule_options=options)
    with pytest.raises(UsageError, match=message):
        check_arms([PLAIN, arm], [0.7])

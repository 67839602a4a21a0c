"""Combinations that cannot work are refused before anything loads, naming both sides."""

import pytest

from specbench.core.arm import ArmSpec
from specbench.errors import UsageError
from specbench.experiment.arms import check_arms


def test_the_greedy_rule_is_refused_above_temperature_zero():
    with pytest.raises(UsageError, match="arm a: rule greedy judges temperature 0 only.*0.7"):
        check_arms([ArmSpec("a", "ngram", 3, "greedy")], [0.0, 0.7])


def test_the_greedy_rule_is_accepted_at_temperature_zero():
    (factors,) = check_arms([ArmSpec("a", "ngram", 3, "greedy")], [0.0])
    assert (factors.rule, factors.lossless, factors.draft_law) == ("greedy", "proven", "one_hot")


def test_an_unknown_drafter_option_names_arm_drafter_and_option():
    arm = ArmSpec("a", "ngram", 3, drafter_options={"max_m": 4})
    with pytest.raises(UsageError, match="arm a: drafter ngram has no option 'max_m'") as refused:
        check_arms([arm], [0.0])
    assert "max_n" in refused.value.hint

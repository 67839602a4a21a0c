"""Combinations that cannot work are refused before anything loads, naming both sides."""

import pytest

from specbench.core.arm import ArmSpec
from specbench.errors import UsageError
from specbench.experiment.arms import check_arms


def test_the_greedy_rule_is_refused_above_temperature_zero():
    with pytest.raises(UsageError, match=r"arm a: rule greedy judges temperature 0 only.*0\.7"):
        check_arms([ArmSpec("a", "ngram", 3, "greedy")], [0.0, 0.7])


def test_the_greedy_rule_is_accepted_at_temperature_zero():
    (factors,) = check_arms([ArmSpec("a", "ngram", 3, "greedy")], [0.0])
    assert (factors.rule, factors.lossless, factors.draft_law) == ("greedy", "proven", "one_hot")


def test_an_unknown_drafter_option_names_arm_drafter_and_option():
    arm = ArmSpec("a", "ngram", 3, drafter_options={"max_m": 4})
    with pytest.raises(UsageError, match="arm a: drafter ngram has no option 'max_m'") as refused:
        check_arms([arm], [0.0])
    assert "max_n" in refused.value.hint


def test_a_greedy_draft_is_declared_one_hot():
    options = {"model": "m", "sampling": "greedy"}
    sampled, greedy = check_arms(
        [
            ArmSpec("s", "draft_model", 3, drafter_options={"model": "m"}),
            ArmSpec("g", "draft_model", 3, drafter_options=options),
        ],
        [0.7],
    )
    assert (sampled.draft_law, greedy.draft_law) == ("dense", "one_hot")

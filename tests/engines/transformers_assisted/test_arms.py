"""What an arm on the assisted engine may ask for, checked before anything loads."""

import subprocess
import sys

import pytest

from specbench.core.arm import ArmSpec
from specbench.engines.transformers_assisted.arms import DraftSettings, draft_settings
from specbench.engines.transformers_assisted.engine import open_engine
from specbench.errors import UsageError
from tests.engines.transformers_assisted.runs import ENGINE, arm


@pytest.mark.parametrize(
    ("asked", "law"),
    [
        (arm("a", "ngram", 3), "one_hot"),
        (arm("a", "draft_model", 3, model="m"), "dense"),
        (arm("a", "layer_skip", 3), "dense"),
    ],
)
def test_factors_name_law_and_standing(asked, law):
    factors = open_engine.factors(asked, [0.0, 1.0])
    assert (factors.drafter, factors.k, factors.rule) == (asked.drafter, 3, "rejection")
    assert (factors.draft_law, factors.lossless, factors.tree) == (law, "claimed", "chain")
    assert factors.engine == ENGINE


def test_plain_has_no_rule():
    factors = open_engine.factors(arm("plain"), [0.0])
    assert (factors.rule, factors.k, factors.draft_law) == ("none", 0, "")


def test_the_greedy_rule_is_for_temperature_0():
    asked = arm("a", "ngram", 3, "greedy")
    assert open_engine.factors(asked, [0.0]).rule == "greedy"
    with pytest.raises(UsageError, match=r"rule 'greedy' up to temperature 0.7"):
        open_engine.factors(asked, [0.0, 0.7])


def test_target_match_is_refused_with_what_there_is():
    with pytest.raises(UsageError, match="target_match") as caught:
        open_engine.factors(arm("a", "ngram", 3, "target_match"), [1.0])
    assert "'rejection'" in caught.value.hint


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (arm("a", "medusa", 3), "no drafter 'medusa'"),
        (arm("a", "ngram", 3, min_m=1), "no option 'min_m'"),
        (arm("a", "ngram", 3, min_n=2), "option min_n = 2"),
        (arm("a", "ngram", 3, occurrence="last"), "option occurrence = 'last'"),
        (arm("a", "ngram", 3, max_n=0), "option max_n = 0"),
        (arm("a", "ngram", 0), "k >= 1, not 0"),
        (arm("a", "draft_model", 3), "option model is missing"),
        (arm("a", "draft_model", 3, model="m", sampling="greedy"), "sampling = 'greedy'"),
        (arm("a", "draft_model", 3, model="m", universal="yes"), "universal = 'yes'"),
        (arm("a", "draft_model", 3, model="m", schedule="clever"), "schedule = 'clever'"),
        (arm("a", "draft_model", 3, model="m", confidence=1.0), "confidence = 1.0"),
        (arm("a", "draft_model", 3, model="m", dtype=4), "dtype = 4"),
        (arm("a", "layer_skip", 3, layers=True), "layers = True"),
        (ArmSpec("a", "ngram", 3, rule_options={"x": 1}), "no option 'x'"),
    ],
)
def test_what_the_library_does_not_offer_is_refused_by_name(asked, message):
    with pytest.raises(UsageError, match=message) as caught:
        open_engine.factors(asked, [0.0])
    assert caught.value.message.startswith("arm a: ")
    assert caught.value.hint


def test_settings_have_the_documented_defaults():
    assert draft_settings(arm("a", "ngram", 3)) == DraftSettings()
    given = arm("a", "draft_model", 3, model="m", schedule="heuristic", confidence=0.4)
    assert draft_settings(given) == DraftSettings(
        model="m", schedule="heuristic_transient", confidence=0.4
    )


def test_checking_arms_needs_no_torch():
    code = (
        "import sys\n"
        "from specbench.core.arm import ArmSpec\n"
        "from specbench.engines.transformers_assisted.engine import open_engine\n"
        "open_engine.factors(ArmSpec('a', 'ngram', 3), [0.0])\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

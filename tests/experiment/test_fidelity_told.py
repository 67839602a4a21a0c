"""What a fidelity report does not say: no pass by weak tests alone, no claim that nobody made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.trace import Finish
from specbench.experiment.fidelity.report import PASSED, UNDECIDED, report
from tests.experiment.test_fidelity import SAME, greedy, lines, outputs, run, sampled_outputs


def strangers(arm, count, word):
    """Outputs of which no two share a token, every other one ended by itself."""
    for repeat in range(count):
        one = outputs(arm, "a", [word + 10 * repeat + k for k in range(4)], repeat)
        one.finish = Finish.EOS if repeat // 2 % 2 else Finish.LENGTH
        yield one


def test_weak_tests_alone_pass_no_arm():
    # Outputs that share nothing anyway stay as far apart when they are replaced: the test of whole
    # outputs cannot fail, and how often outputs end says little about them.
    found = report(run(*strangers("plain", 40, 0), *strangers("exact", 40, 1000)), None)
    results = {line.test: line.result for line in lines(found, "exact")}
    assert results["outputs:mmd"] == UNDECIDED
    assert PASSED in results.values()
    assert {line.verdict for line in lines(found, "exact")} == {UNDECIDED}
    assert found.outcome == UNDECIDED
    sentence = found.sentences[1]
    assert "whole outputs: undecided (mmd: too_few, " in sentence
    assert "only weaker tests could have failed: " in sentence
    assert "would have caught TV" in sentence


def test_a_run_without_rows_says_what_would_be_evidence():
    found = report(run(*sampled_outputs("plain", 2), *sampled_outputs("exact", 2)), None)
    assert found.notes == (
        "no evidence in this run: give --reference MODEL or server:URL, or --outputs with "
        "--repeats 4 or more",
    )


@pytest.mark.parametrize(
    ("states", "whose"),
    [
        (("proven", "claimed"), "lossless arms"),
        (("unknown", "unknown"), "arms whose rule is unknown"),
        (("proven", "unknown"), "lossless arms and of arms whose rule is unknown"),
        (("proven", "lossy"), "lossless arms"),
    ],
)
def test_the_outcome_says_whose_it_is(states, whose):
    arms = ("exact", "second")
    recorded = run(*(greedy(arm, SAME) for arm in ("plain", *arms)), arms=arms, temperatures=(0.0,))
    factors = [
        replace(a, lossless=s) for a, s in zip(recorded.manifest.arms[1:], states, strict=True)
    ]
    recorded.manifest = replace(recorded.manifest, arms=(recorded.manifest.arms[0], *factors))
    assert report(recorded, None).told == f"fidelity of {whose}: passed"

"""Chance of acceptance is taken off accept lengths: the mean stays, the interval narrows."""

import numpy as np
import pytest

from specbench.results.compare.compare import compare
from tests.results.compare.made import arm, opened, row, write_run

K, PROMPTS, STEPS = 3, 60, 12


def decoded(rng, item, name, level):
    """A request of ``STEPS`` steps whose drafts are accepted with chances drawn about a level."""
    accepted, overlap, visited, judged = 0, 0.0, 0, 0
    for _ in range(STEPS):
        for _ in range(K):
            chance = float(rng.beta(8 * level, 8 * (1 - level)))
            visited, overlap, judged = visited + 1, overlap + chance, judged + 1
            if rng.random() >= chance:
                break
            accepted += 1
    told = {"temperature": 0.7, "visited": visited, "overlap": repr(overlap), "judged": judged}
    return row(item, name, committed=accepted + STEPS, steps=STEPS, **told)


def simulated(folder, seed, new=0.6, **changes):
    rng = np.random.default_rng(seed)
    rows = [
        decoded(rng, f"p{number}", name, level)
        for number in range(PROMPTS)
        for name, level in (("a", 0.6), ("b", new))
    ]
    write_run(folder, rows, arms=[arm("a", **changes), arm("b", **changes)])
    (found,) = compare(
        opened(folder, "a"), [opened(folder, "b")], measures=["accept_length"], by="temperature"
    )
    return found.parts[0].judged[0].contrast


def width(contrast):
    return contrast.ratio.high - contrast.ratio.low


def test_the_interval_is_narrower_and_says_why(tmp_path):
    with_chance = simulated(tmp_path / "plain", 1, rule="target_match")
    without = simulated(tmp_path / "narrow", 1)
    assert "chance of acceptance taken off on 2 of 2 sides" in without.ratio.method
    assert "chance" not in with_chance.ratio.method
    assert width(without) < 0.7 * width(with_chance)
    assert without.detectable.value < 0.7 * with_chance.detectable.value


def test_it_is_as_far_from_the_truth_as_its_interval_says(tmp_path):
    # E = sum of 0.6 ** depth: chances at a depth are independent with mean 0.6 and 0.66.
    lengths = [sum(level**depth for depth in range(K + 1)) for level in (0.6, 0.66)]
    truth = lengths[1] / lengths[0]
    found = [simulated(tmp_path / str(seed), seed, new=0.66) for seed in range(20)]
    held = sum(one.ratio.low <= truth <= one.ratio.high for one in found)
    # 95 % of 20, and less than 16 in one of 2,500 tries.
    assert held >= 16
    mean = float(np.mean([one.ratio.value for one in found]))
    assert mean == pytest.approx(truth, abs=0.02)


@pytest.mark.parametrize("changes", [{"tree": "nodes=8"}, {"rule": "block"}])
def test_other_rules_and_trees_accept_by_other_chances(tmp_path, changes):
    assert "chance" not in simulated(tmp_path / "r", 2, **changes).ratio.method


def test_few_prompts_are_left_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.results.compare.test_narrowed.PROMPTS", 6)
    assert "chance" not in simulated(tmp_path / "r", 3).ratio.method

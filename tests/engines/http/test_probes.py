"""What answers to the same question say about temperature and seed."""

from __future__ import annotations

import pytest

from specbench.engines.http.probes import Answers, judge

HONEST = [Answers("a", "a", "b", "g", "g"), Answers("c", "c", "d", "h", "h")]


@pytest.mark.parametrize(
    ("answers", "temperature", "seed", "greedy"),
    [
        (HONEST, "honoured", "honoured", "repeatable"),
        ([Answers("g", "g", "g", "g", "g")] * 2, "ignored", "not tested", "repeatable"),
        ([Answers("a", "b", "c", "g", "g")] * 2, "honoured", "ignored", "repeatable"),
        # one seed for all: sampled, but never another answer
        ([Answers("a", "a", "a", "g", "g")] * 2, "honoured", "not tested", "repeatable"),
        ([Answers("a", "a", "b", "g", "h")] * 2, "honoured", "honoured", "varies"),
        # a question with one likely answer decides nothing for the others
        ([*HONEST, Answers("g", "g", "g", "g", "g")], "honoured", "honoured", "repeatable"),
    ],
    ids=["honest", "greedy", "no seed", "one seed", "noisy", "easy question"],
)
def test_judgements(answers, temperature, seed, greedy):
    found = judge(answers)
    assert (found["temperature"], found["seed"], found["greedy"]) == (temperature, seed, greedy)


def test_the_chance_is_stated():
    # two independent sampled answers per question, each the greedy one half of the time: 2^-4
    assert "by chance 0.06" in judge(HONEST)["certainty"]

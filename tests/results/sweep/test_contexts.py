"""The best K by length of prompts, from rows written by hand."""

from __future__ import annotations

import pytest

from specbench.results.store import RunFolder
from specbench.results.sweep.contexts import by_context
from tests.results.compare.made import row, write_run

SHORT = {"plain": 100.0, "k2": 50.0, "k5": 80.0}
LONG = {"plain": 100.0, "k2": 125.0, "k5": 120.0}
"""Milliseconds of 10 tokens: at short prompts k2 takes half as long, at long ones plain is best."""


def rows(count, tokens, times, jitter=0.0):
    return [
        row(f"{tokens}-{n}", name, ms=ms * (1 + jitter * (-1) ** (n + place)), prompt_tokens=tokens)
        for n in range(count)
        for place, (name, ms) in enumerate(times.items())
    ]


def chosen(tmp_path, made, names=("plain", "k2", "k5")):
    write_run(tmp_path / "run", made)
    found = by_context(RunFolder(tmp_path / "run"), names)
    return {one.context: one for one in found}


def test_each_length_has_its_own_best(tmp_path):
    found = chosen(tmp_path, rows(6, 100, SHORT) + rows(6, 2000, LONG))
    short, long = found["up to 1024 tokens"], found["up to 4096 tokens"]
    assert (short.best, short.decided, short.prompts) == ("k2", True, 6)
    assert short.times_plain.number() == pytest.approx(2.0)
    assert (long.best, long.decided) == ("plain", True)
    assert long.times_plain.number() == 1.0


def test_what_is_not_told_apart_is_undecided(tmp_path):
    near = {"plain": 100.0, "k2": 50.0, "k5": 51.0}
    found = chosen(tmp_path, rows(6, 100, near, jitter=0.1) + rows(2, 2000, LONG))
    short, long = found["up to 1024 tokens"], found["up to 4096 tokens"]
    assert (short.best, short.decided) == ("k2", False)
    assert short.why == "not told apart from k5"
    assert short.times_plain.low < 2 < short.times_plain.high
    assert (long.decided, long.why) == (False, "2 prompts, 3 are needed")


def test_prompts_of_one_length_have_no_buckets(tmp_path):
    assert chosen(tmp_path, rows(6, 100, SHORT)) == {}

"""Choosing prompts: spread over categories, stable, and a longer choice extends a shorter one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.core.suite import Prompt, Suite
from specbench.errors import UsageError
from specbench.suites.loader import select

FIVE = [("r", "x"), ("u", "y"), ("p", "x"), ("v", "y"), ("q", "x")]


def ids(prompts):
    return [prompt.id for prompt in prompts]


def test_golden_order(suite):
    # printf 0/demo/p | sha256sum ...: p 4b29, q 50ad, r 7ef6 | v 8fdd, u 9927
    assert ids(select(suite(*FIVE), seed=0)) == ["p", "v", "q", "u", "r"]
    # seed 1: q 5028, p 7ccc, r b749 | v 4cdd, u cb99
    assert ids(select(suite(*FIVE), seed=1)) == ["q", "v", "p", "u", "r"]


def test_file_order_does_not_matter(suite):
    backwards = [FIVE[2], FIVE[3], FIVE[4], FIVE[1], FIVE[0]]
    assert ids(select(suite(*FIVE))) == ids(select(suite(*backwards)))


def test_six_prompts_cover_six_categories(suite):
    items = [(f"{c}-{i}", c) for c in "abcdef" for i in range(20)]
    chosen = select(suite(*items), limit=6)
    assert sorted(p.category for p in chosen) == list("abcdef")


def test_split_and_categories(suite):
    both = suite(("a", "x"), ("b", "x"), ("c", "y"))  # a is dev, b and c are test
    assert ids(select(both, split="dev")) == ["a"]
    assert set(ids(select(both, split="test"))) == {"b", "c"}
    assert len(select(both, split="all")) == 3
    assert ids(select(both, categories=["y"])) == ["c"]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"split": "tset"}, "did you mean test"),
        ({"limit": 0}, "limit is 0"),
        ({"categories": ["z"]}, "no category 'z'"),
        ({"split": "dev", "categories": ["y"]}, "no prompt"),
    ],
)
def test_refused(suite, options, part):
    with pytest.raises(UsageError, match=part):
        select(suite(("a", "x"), ("c", "y")), **options)


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    limits=st.tuples(st.integers(1, 60), st.integers(1, 60)).map(sorted),
    seed=st.integers(0, 3),
)
def test_a_longer_choice_extends_a_shorter_one(sizes, limits, seed):
    prompts = [
        Prompt(id=f"{c}-{i}", category=str(c), split="test", turns=("U",))
        for c, size in enumerate(sizes)
        for i in range(size)
    ]
    categories = {prompt.category: "" for prompt in prompts}
    suite = Suite("demo", "1", "", "", "", 1, categories, tuple(prompts))
    short, long = (select(suite, limit=limit, seed=seed) for limit in limits)
    assert long[: len(short)] == short
    assert len(long) == len(set(ids(long))) == min(limits[1], len(prompts))
    counts = [sum(p.category == str(c) for p in short) for c in range(len(sizes))]
    full = [min(max(counts), size) for size in sizes]
    assert all(top - 1 <= n <= top for n, top in zip(counts, full, strict=True))

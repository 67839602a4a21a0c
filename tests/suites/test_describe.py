"""Counts of a suite and its warnings."""

from __future__ import annotations

from specbench.core.suite import Prompt, Scoring
from specbench.suites.describe import describe, length_of, words_of


def prompt(id, *turns, category="x", split="dev", **more):
    return Prompt(id=id, category=category, split=split, turns=turns, **more)


def test_counts(suite):
    found = describe(
        suite(
            prompt("a", "one two three", tags=("t",)),
            prompt("b", "one two", "four", category="y", split="test", system="Be brief"),
            prompt("c", "five", tags=("t", "s"), scoring=Scoring("json", required=("k",))),
        )
    )
    assert (found.prompts, found.turns) == (3, 4)
    assert found.counts["category"] == {"x": 2, "y": 1}
    assert found.counts["split"] == {"dev": 2, "test": 1}
    assert found.counts["turns"] == {"1": 2, "2": 1}
    assert found.counts["tag"] == {"s": 1, "t": 2}
    assert found.counts["scoring"] == {"json": 1, "none": 2}
    assert found.counts["length"]["up to 32 words"] == 3
    # words per prompt: 3, 5 (with the system message), 1
    assert (found.words_min, found.words_median, found.words_max) == (1, 3, 5)
    # one two three | be brief one two four | five: 7 of 9 are different
    assert found.distinct_share == 7 / 9
    assert found.warnings == ()


def test_chinese_and_japanese_count_characters():
    assert len(words_of(prompt("a", "我们明天去 Peking。カナ"))) == 8  # 5 + 1 + 2


def test_length_classes():
    assert [length_of(n) for n in (32, 33, 128, 129, 512, 513)] == [
        "up to 32 words",
        "33-128 words",
        "33-128 words",
        "129-512 words",
        "129-512 words",
        "over 512 words",
    ]


def test_d15_repeated_filler_is_degenerate(suite):
    sentence = " ".join(f"w{i}" for i in range(30))
    (one,) = describe(suite(prompt("a", " ".join([sentence] * 200)), name="d")).warnings[:1]
    assert one == "a: degenerate, 0.005 of its words are distinct"  # 30 / 6000
    many = describe(suite(*(prompt(f"p{i}", sentence) for i in range(200)))).warnings
    assert "suite demo: degenerate, 0.005 of its words are distinct" in many
    assert "p1: duplicate of p0" in many


def test_ordinary_repetition_is_not(suite):
    # 1 distinct of 20 words is exactly 0.05, not below
    assert describe(suite(prompt("a", "w " * 20))).warnings == ()


def test_duplicates_need_equal_system_messages(suite):
    found = describe(suite(prompt("a", "w"), prompt("b", "w", system="s"), prompt("c", "w")))
    assert found.warnings == ("c: duplicate of a",)


def test_translation_without_reference_and_empty_prompts(suite):
    scoring = Scoring("translation", source_language="de", target_language="en", source="Ja")
    found = describe(suite(prompt("a", "Ja", scoring=scoring), prompt("b", "")))
    assert found.warnings == ("a: translation without a reference", "b: no words")
    assert describe(suite(prompt("b", ""))).distinct_share is None

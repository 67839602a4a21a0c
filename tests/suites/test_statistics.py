"""Statistics of prompts, by hand, and what they warn of (case D15)."""

from __future__ import annotations

import json

import pytest

from specbench.core.suite import Prompt
from specbench.suites.loader import load_suite
from specbench.suites.statistics import Spread, prompt_statistics


def prompts(*texts, **more):
    return [
        Prompt(id=f"p{i}", category="x", split="dev", turns=(text,), **more)
        for i, text in enumerate(texts)
    ]


def letters(text):
    return [ord(letter) for letter in text]


def test_by_hand():
    found = prompt_statistics(
        [
            *prompts("abcd", "abx", "q"),
            Prompt(id="two", category="x", split="dev", system="s", turns=("ab", "c")),
        ],
        letters,
    )
    assert (found.unit, found.prompts, found.requests) == ("tokens", 4, 5)
    # abcd, abx, q, and s, ab, c with two blank lines of two characters each
    assert found.characters == found.units == Spread(1, 3.5, 8, 8)
    # a b c d x q s and the line end, of 4 + 3 + 1 + 8 letters
    assert found.distinct_share == 8 / 16
    assert (found.duplicates, found.recycled_turns, found.common_prefix) == (0, 0, 0)
    # a cache that has abcd need not compute ab of abx
    assert found.shared_share == 2 / 16
    assert found.warnings == ()


def test_shared_beginnings_are_those_of_a_prefix_tree():
    texts = ["aaab", "aaac", "aab", "b", "aaab"]
    beginnings = {text[:n] for text in texts for n in range(1, len(text) + 1)}
    total = sum(map(len, texts))
    found = prompt_statistics(prompts(*texts), letters)
    assert found.shared_share == (total - len(beginnings)) / total


def test_nearest_rank():
    found = prompt_statistics(prompts(*("x" * n for n in range(1, 21))), letters)
    assert found.units == Spread(1, 10.5, 18, 20)
    assert found.common_prefix == 1


def test_d15_one_sentence_over_and_over():
    sentence = " ".join(f"w{i}" for i in range(30))
    found = prompt_statistics(prompts(*[sentence] * 200))
    assert (found.unit, found.distinct_share) == ("words", 30 / 6000)
    assert (found.duplicates, found.recycled_turns, found.common_prefix) == (199, 199, 30)
    assert found.warnings[0].startswith("degenerate: 0.0050 of the words are distinct")
    assert found.warnings[1].startswith("199 of 200 prompts are sent again")
    # the same filler inside one prompt
    (inside,) = prompts(" ".join([sentence] * 200))
    assert "1 prompts repeat themselves, first p0" in prompt_statistics([inside]).warnings


def test_d15_turns_asked_before():
    found = prompt_statistics(
        [
            Prompt(id=f"p{i}", category="x", split="dev", turns=(f"question {i}", "Why?"))
            for i in range(3)
        ]
    )
    assert (found.duplicates, found.recycled_turns) == (0, 2)
    assert found.warnings == ("2 of 6 turns ask what was asked before",)


def test_one_system_message_for_all_is_a_matter_of_the_prefix_cache():
    system = " ".join(f"rule{i}" for i in range(50))
    found = prompt_statistics(prompts("one", "two", "three", system=system))
    assert found.common_prefix == 50
    assert found.shared_share == 100 / 153
    (warning,) = found.warnings
    assert "TTFT depends on the prefix cache" in warning


def test_equal_text_with_other_tools_is_no_duplicate():
    one, two = prompts("U"), prompts("U", passed_on={"tools": [{"name": "f"}]})
    assert prompt_statistics([*one, *two]).duplicates == 0
    assert prompt_statistics([*one, *one]).duplicates == 1


def test_a_long_suite_of_real_text_is_not_degenerate():
    # distinct words over all of them fall below any threshold in the end
    texts = [" ".join(f"w{(i * 31 + j * 7) % 500}" for j in range(100)) for i in range(1000)]
    assert prompt_statistics(prompts(*texts)).distinct_share == 500 / 10_000


@pytest.mark.parametrize("name", ["code", "chat", "translation"])
def test_built_in_suites_are_fit(name):
    assert prompt_statistics(load_suite(name).prompts).warnings == ()


def test_contexts_count(tmp_path):
    path = tmp_path / "log.jsonl"
    messages = [
        {"role": "user", "content": "one two"},
        {"role": "assistant", "content": "three"},
        {"role": "user", "content": "four"},
    ]
    path.write_text(json.dumps({"body": {"messages": messages}}))
    found = prompt_statistics(load_suite(path).prompts)
    assert (found.units.minimum, found.distinct_share) == (4, 1.0)


def test_nothing_to_measure():
    with pytest.raises(ValueError, match="no prompts"):
        prompt_statistics([])

"""Bigram tables: counted against a dictionary, written as the format says."""

from __future__ import annotations

import json
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from specbench.errors import UsageError
from specbench.train.bigram import count_bigrams, write_bigram

VOCABULARY = 5


def by_definition(sequences):
    """The most frequent successor of each token, the lowest of equals, -1 for none."""
    counts = [Counter() for _ in range(VOCABULARY)]
    for ids, start in sequences:
        for place in range(1, len(ids)):
            if place >= start:
                counts[ids[place - 1]][ids[place]] += 1
    return [min(c, key=lambda token: (-c[token], token)) if c else -1 for c in counts]


SEQUENCE = st.lists(st.integers(0, VOCABULARY - 1), max_size=12).flatmap(
    lambda ids: st.tuples(st.just(ids), st.integers(0, len(ids)))
)


@settings(deadline=None, max_examples=200)
@given(st.lists(SEQUENCE, max_size=6))
def test_counts_equal_the_definition(sequences):
    table = count_bigrams(sequences, VOCABULARY)
    assert table.dtype == torch.int32
    assert table.tolist() == by_definition(sequences)


def test_only_answers_count_and_the_last_prompt_token_is_followed_by_the_first_of_them():
    # prompt 0 1 0 1, answer 2 0 2: pairs 1-2, 2-0, 0-2; that 1 follows 0 twice is the prompt's
    assert count_bigrams([([0, 1, 0, 1, 2, 0, 2], 4)], 4).tolist() == [2, 2, 0, -1]


def test_equal_counts_go_to_the_lower_id_whatever_came_first():
    assert count_bigrams([([0, 3, 0, 1], 0)], 4).tolist() == [1, -1, -1, 0]


def test_pairs_do_not_reach_from_one_text_into_the_next():
    assert count_bigrams([([1], 0), ([2], 0)], 3).tolist() == [-1, -1, -1]


@pytest.mark.parametrize("ids", [[0, 5], [-1, 0]])
def test_ids_of_another_target_are_refused(ids):
    with pytest.raises(UsageError, match="the target 0 to 4"):
        count_bigrams([(ids, 0)], 5)


def test_the_file_is_as_described(tmp_path):
    table = torch.tensor([1, -1, 0], dtype=torch.int32)
    facts = {"tokens": 7, "target": "org/target", "weight_hash": "ab" * 32}
    folder = write_bigram(tmp_path / "new" / "table", table, facts)
    stored = load_file(folder / "bigram.safetensors")
    assert stored.keys() == {"next"}
    assert stored["next"].dtype == torch.int32
    assert stored["next"].tolist() == [1, -1, 0]
    assert json.loads((folder / "config.json").read_text()) == {
        "model_type": "bigram",
        "vocabulary": 3,
        **facts,
    }
    with pytest.raises(UsageError, match="already holds a checkpoint"):
        write_bigram(folder, table, facts)

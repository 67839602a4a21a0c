"""Which target a head was trained on: what its files say, and what is told of another one."""

from __future__ import annotations

import json

import pytest

from specbench.models.heads.made_for import MadeFor, made_for, other_target
from tests.models.heads import fixtures
from tests.models.heads.reading import read

HASH = "0123456789abcdef" * 4
MADE = MadeFor("org/target", HASH)
CARD = {"target": {"name": "org/target", "weight_hash": HASH}}


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"training.json": CARD}, MADE),
        ({"config.json": CARD}, MADE),
        ({"config.json": {"target": "org/target", "weight_hash": HASH}}, MADE),
        ({"training.json": CARD, "config.json": {"target": "x", "weight_hash": "y"}}, MADE),
        ({"training.json": {"steps": 3}, "config.json": CARD}, MADE),
        ({}, None),
        ({"config.json": {"target": "org/target"}}, None),
        ({"config.json": {"weight_hash": HASH}}, None),
        ({"training.json": {"target": {"name": "org/target"}}}, None),
        ({"training.json": ["another program's"], "config.json": CARD}, MADE),
    ],
)
def test_the_card_counts_before_the_configuration(tmp_path, files, found):
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert made_for(tmp_path) == found


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            {"train": {"answers": 4206, "answer_tokens": 509713}},
            "4,206 own answers of the target, 509,713 tokens",
        ),
        ({"train": {"answers": "many", "answer_tokens": 1}}, ""),
        ({"train": ["sharegpt.json"]}, ""),
        ("sharegpt.json", ""),
    ],
)
def test_what_it_was_trained_on(tmp_path, data, said):
    (tmp_path / "training.json").write_text(json.dumps(CARD | {"data": data}))
    assert made_for(tmp_path) == MadeFor("org/target", HASH, said)


def test_a_file_that_is_not_json_says_nothing(tmp_path):
    (tmp_path / "training.json").write_bytes(b"\xff{")
    assert made_for(tmp_path) is None


def test_other_weights_are_told_with_both_names():
    told = other_target(MADE, "mine", "f" * 64)
    assert "org/target with weights 0123456789ab" in told
    assert "mine has weights ffffffffffff" in told


@pytest.mark.parametrize(("made", "digest"), [(None, "f" * 64), (MADE, HASH), (MADE, "")])
def test_the_same_weights_and_unknown_ones_are_not(made, digest):
    assert other_target(made, "mine", digest) == ""


def test_a_head_that_is_read_carries_it(tmp_path):
    fixtures.eagle3(tmp_path)
    assert read(tmp_path).made_for is None
    assert read(tmp_path).facts()["made_for"] is None
    (tmp_path / "training.json").write_text(json.dumps(CARD))
    head = read(tmp_path)
    assert head.made_for == MADE
    said = {"name": "org/target", "weight_hash": HASH, "trained_on": ""}
    assert head.facts()["made_for"] == said

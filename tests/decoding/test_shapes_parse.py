"""What the option ``tree`` may say, and what messages about wrong values say."""

from __future__ import annotations

import json

import pytest

from specbench.decoding.shapes.expected import Accuracies
from specbench.decoding.shapes.named import named
from specbench.decoding.shapes.optimal import optimal
from specbench.decoding.shapes.parse import DEFAULT_DEPTH, MAX_NODES, parse_shape
from specbench.errors import PrerequisiteError, UsageError

WHERE = "arm wide"


@pytest.fixture
def accuracies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(content):
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / "heads.json").write_text(text)
        return "heads.json"

    return write


def test_names():
    assert parse_shape("medusa_63", WHERE) == named("medusa_63")


def test_products():
    assert len(parse_shape("4x3x2", WHERE)) == 4 + 12 + 24
    assert parse_shape("3", WHERE).paths() == [(0,), (1,), (2,)]


def test_rank_paths():
    shape = parse_shape([[0, 0], [1], [0]], WHERE)
    assert shape.paths() == [(0,), (1,), (0, 0)]


def test_searches(accuracies):
    rows = [[0.6, 0.2], [0.5, 0.1], [0.4]]
    name = accuracies({"accuracies": rows})
    assert parse_shape(f"optimal:5:{name}", WHERE) == optimal(Accuracies.of(rows), 5, 3)[0]
    assert len(parse_shape(f"best_first:5:{name}", WHERE)) == 5


def test_a_search_without_depths_is_bounded(accuracies):
    name = accuracies({"accuracies": [1.0]})
    assert parse_shape(f"optimal:100:{name}", WHERE).depth == DEFAULT_DEPTH
    name = accuracies({"accuracies": [1.0], "depth": 3})
    assert parse_shape(f"best_first:100:{name}", WHERE).depth == 3


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("medusa_64", ["arm wide", "'medusa_64'", "did you mean medusa_63"]),
        ("dynamik", ["did you mean dynamic"]),
        ("40x40", ["1640 nodes", f"1 to {MAX_NODES}"]),
        ("0", ["0 nodes"]),
        ("optimum:5:f.json", ["no search 'optimum'", "did you mean optimal"]),
        ("optimal:5", ["optimal:NODES:FILE", "optimal:63:"]),
        ("optimal:many:f.json", ["optimal:NODES:FILE"]),
        ("optimal:5000:f.json", ["5000 nodes"]),
        (7, ["no shape of a tree", "rank paths"]),
        ([0, 1], ["no shape of a tree"]),
        ([[0], ["1"]], ["no shape of a tree"]),
        ([[True]], ["no shape of a tree"]),
        ([], ["0 nodes"]),
        ([[0], [1, 0]], ["[1, 0] has no parent [1]", "list every path once"]),
        ([[0], [0]], ["occurs twice"]),
        ([[0], [-1]], ["negative rank"]),
    ],
)
def test_wrong_values_say_what_to_write(value, words):
    with pytest.raises(UsageError) as caught:
        parse_shape(value, WHERE)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", ["heads.json is no JSON"]),
        ([0.5], ['no list "accuracies"']),
        ({"accuracies": 0.5}, ['no list "accuracies"']),
        ({"accuracies": [0.9, 0.9]}, ["sum over ranks is 1.8"]),
        ({"accuracies": [0.5], "depth": 0}, ["depth = 0"]),
        ({"accuracies": [0.5], "depth": "2"}, ["depth = '2'"]),
    ],
)
def test_wrong_files(accuracies, content, words):
    with pytest.raises(UsageError) as caught:
        parse_shape(f"optimal:5:{accuracies(content)}", WHERE)
    for word in [*words, WHERE, "the file holds"]:
        assert word in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(PrerequisiteError, match="No such file"):
        parse_shape(f"optimal:5:{tmp_path / 'none.json'}", WHERE)

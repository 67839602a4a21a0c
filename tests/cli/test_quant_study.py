"""A study of quantised pairs on the native engine: a tiny model drafts for itself, in 8 bits."""

from __future__ import annotations

import csv
import io
import json

import pytest

from specbench.cli.main import call
from tests.models.tiny import tiny_model, write_tokenizer

EXPERIMENT = """
schema_version = 1
name = "pairs"
[target]
model = "{model}"
[workload]
suites = ["{suite}"]
temperatures = [0.0, 1.0]
max_new_tokens = 12
[study]
key = "target.quant"
values = ["none", "int8"]
[arm.self]
drafter = "draft_model"
k = 3
options = {{ model = "{model}" }}
[arm.self-int8]
drafter = "draft_model"
k = 3
options = {{ model = "{model}", quant = "int8" }}
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory, one_thread):
    folder = tmp_path_factory.mktemp("quant")
    model = folder / "tiny"
    tiny_model().save_pretrained(model)
    write_tokenizer(model)
    suite = folder / "prompts.jsonl"
    rows = [{"id": f"p{i}", "category": "all", "turns": [f"say {i}"]} for i in range(4)]
    suite.write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = folder / "pairs.toml"
    path.write_text(EXPERIMENT.format(model=model, suite=suite))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECBENCH_CACHE", str(folder / "cache"))
        patch.setattr("sys.argv", ["specbench", "run"])
        assert call(["run", str(path), "--out", str(folder / "results"), "--yes"]) == 0
    (found,) = (folder / "results").iterdir()
    return found


def runs(study):
    members = json.loads((study / "study.json").read_text())["members"]
    return {member["value"]: study / member["run"] for member in members}


def manifest(study, value):
    return json.loads((runs(study)[value] / "manifest.json").read_text())


def test_both_sides_say_what_they_are_stored_as(study):
    for value in ("none", "int8"):
        held = manifest(study, value)
        assert held["identity"]["quant"] == held["engine"]["target"]["quant"] == value
        assert held["identity"]["dtype"] == held["engine"]["target"]["dtype"] == "float32"
        drafts = held["engine"]["drafts"]
        assert [drafts[arm][0]["quant"] for arm in ("self", "self-int8")] == ["none", "int8"]
        assert {drafts[arm][0]["dtype"] for arm in drafts} == {"float32"}
        assert {arm["name"]: arm["quant"] for arm in held["arms"]} == {
            "plain": "none",
            "self": "none",
            "self-int8": "int8",
        }
    none, int8 = (manifest(study, value)["identity"] for value in ("none", "int8"))
    assert {key for key in none if none[key] != int8[key]} == {"quant"}


def test_rows_of_the_table_name_target_and_draft(study):
    table = csv.DictReader(io.StringIO((runs(study)["int8"] / "table.csv").read_text()))
    assert {(row["arm"], row["quant"]) for row in table} == {
        ("plain", "int8"),
        ("self", "int8"),
        ("self-int8", "int8/int8"),
    }


def test_memory_counts_what_is_stored(study):
    none, int8 = (manifest(study, value)["memory"] for value in ("none", "int8"))
    assert int8["self"]["target_weights"] < none["self"]["target_weights"]
    assert none["self-int8"]["draft_weights"] == int8["plain"]["target_weights"]
    assert none["self"]["draft_weights"] == none["plain"]["target_weights"]


def test_the_output_is_that_of_the_target_as_it_is_stored(study):
    rows = json.loads((study / "study.json").read_text())["rows"]
    greedy = [row for row in rows if row["temperature"] == 0.0]
    assert {row["identity"] for row in greedy} == {"identical"}
    assert {(row["value"], row["arm"], row["draft_quant"]) for row in rows} == {
        (value, arm, quant)
        for value in ("none", "int8")
        for arm, quant in (("self", "none"), ("self-int8", "int8"))
    }
    same = [row for row in rows if (row["value"] == "int8") == (row["draft_quant"] == "int8")]
    # A draft that is the target, stored alike, proposes what the target would say.
    assert min(row["figures"]["accept_rate"]["value"] for row in same) > 0.999


def test_the_heading_of_a_run_says_how_its_weights_are_stored(study, capsys):
    assert call(["show", str(runs(study)["int8"])]) == 0
    assert "float32 with int8 weights" in capsys.readouterr().out.splitlines()[0]


def test_runs_of_different_targets_stand_in_no_table_of_engines(study, capsys):
    assert call(["show", *map(str, runs(study).values())]) == 6
    assert 'quant: "none" != "int8"' in capsys.readouterr().err


def test_three_differences_are_told(study):
    lines = json.loads((study / "study.json").read_text())["sentences"]
    assert len(lines) == 2
    for line in lines:
        for words in ("the draft to int8", "the target to int8", "both to int8"):
            assert words in line

"""`specbench replay` from a recorded run to table, file and exit code."""

from __future__ import annotations

import csv
import io
import json
import shutil
from itertools import pairwise

import pytest

from specbench.cli.main import call
from specbench.cli.replay import longest_drafts
from specbench.errors import UsageError
from specbench.results.read import read_run
from tests.experiment.replayed_run import write_run
from tests.models.tables import write_table
from tests.models.tiny import byte_level_tokens

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def run(tmp_path_factory, one_thread):
    return write_run(tmp_path_factory.mktemp("replayed"))


def replay(run, *arguments):
    return call(["replay", str(run.path), *map(str, arguments)])


def test_a_table_for_people(run, capsys):
    arguments = ("--draft", "ngram", "--draft", "layer_skip:layers=2", "--k", "1,3")
    assert replay(run, *arguments, "--temperature", 0) == 0
    shown = capsys.readouterr()
    lines = [text.split() for text in shown.out.splitlines() if text.startswith("prompts")]
    assert [(x[1], x[2], x[3]) for x in lines] == [
        ("0", "ngram", "1"),
        ("0", "ngram", "3"),
        ("0", "layer_skip:layers=2", "1"),
        ("0", "layer_skip:layers=2", "3"),
    ]
    assert "never how fast" in shown.out
    assert max(map(len, shown.out.splitlines())) <= 120
    assert "loading draft ngram" in shown.err


def test_json_is_one_document_and_the_file_holds_the_same(run, capsys, tmp_path):
    file = tmp_path / "found.json"
    assert replay(run, "--draft", "ngram", "--k", 2, "--limit", 1, "--json", "--out", file) == 0
    made = json.loads(capsys.readouterr().out)
    assert made == json.loads(file.read_text())
    assert made["k"] == [1, 2]
    assert {x["temperature"] for x in made["lines"]} == {0.0, 0.8}


def test_csv_has_unrounded_numbers_and_the_trace_file_names_the_run(run, capsys):
    arguments = ["--draft", "ngram", "--k", "3,", "--format", "csv"]
    assert call(["replay", str(run.traces), *arguments]) == 2
    arguments[3] = "2,3"
    capsys.readouterr()
    assert call(["replay", str(run.traces), *arguments, "--limit", "2"]) == 0
    shown = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(shown.out)))
    assert [(row["k"], row["items"]) for row in rows] == [("2", "2"), ("3", "2")] * 2
    assert all(float(row["accept_length"]) >= 1 for row in rows)


def by_hand(output, following, k):
    """Steps that a greedy chain of a table takes along an output."""
    place, steps = 0, 0
    while place < len(output) - 1:
        token, accepted = output[place], 0
        room = min(k, len(output) - 2 - place)
        while accepted < room and following[token] == output[place + 1 + accepted]:
            token, accepted = following[token], accepted + 1
        place, steps = place + 1 + accepted, steps + 1
    return steps


def test_a_bigram_table_accepts_what_it_gets_right(run, capsys, tmp_path):
    outputs = [
        list(trace.output_ids)
        for record, trace in read_run(run).traces.items()
        if record.arm == "plain" and record.key.temperature == 0
    ]
    following = [-1] * len(byte_level_tokens())
    for output in outputs:
        for one, after in pairwise(output):
            following[one] = after
    write_table(tmp_path / "table", following)
    draft = f"bigram:model={tmp_path / 'table'}"
    assert replay(run, "--draft", draft, "--k", "2,4", "--temperature", 0, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert any("made for org/target" in note for note in found["notes"])
    for line in found["lines"]:
        steps = [by_hand(output, following, line["k"]) for output in outputs]
        behind = [len(output) - 1 for output in outputs]
        assert line["accept_length"]["value"] == pytest.approx(sum(behind) / sum(steps))
        assert sum(behind) > sum(steps)


def test_all_arms_of_an_experiment(run, capsys):
    source = run.path.parent.parent / "experiment.toml"
    arguments = ("--arms", source, "--k", 1, "--limit", 1, "--temperature", 0, "--format", "md")
    assert replay(run, *arguments) == 0
    shown = capsys.readouterr().out.splitlines()
    rows = [text for text in shown if "prompts" in text]
    assert [row.split(" | ")[2] for row in rows] == ["lookup", "skip", "second"]
    assert "- skip is scored as under rejection, not under its rule target_match" in shown
    assert any(text.startswith("- Nothing was decoded") for text in shown)


def test_records_that_are_left_out_are_told_in_every_form(run, capsys, tmp_path):
    torn = tmp_path / "run"
    shutil.copytree(run.path, torn)
    lines = (torn / "traces.jsonl").read_text().splitlines(keepends=True)
    traces = [json.loads(line) for line in lines]
    for trace in traces:
        if trace.get("key", {}).get("item") == "p1":
            trace["prompt_hash"] = "0" * 64
    (torn / "traces.jsonl").write_text("".join(json.dumps(trace) + "\n" for trace in traces))
    arguments = ["replay", str(torn), "--draft", "ngram", "--k", "1", "--temperature", "0"]
    said = "left out 2: prompt differs (template, tokenizer or suite changed)"
    assert call([*arguments, "--format", "md"]) == 0
    assert f"- {said}" in capsys.readouterr().out.splitlines()
    assert call([*arguments, "--format", "csv"]) == 0
    shown = capsys.readouterr()
    assert said in shown.err.splitlines()
    assert "left out" not in shown.out
    assert call(arguments) == 0
    assert said in capsys.readouterr().out.splitlines()
    assert call([*arguments, "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["left_out"].values()) == [2]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "no draft to replay"),
        (("--draft", "ngrm"), 2, "did you mean ngram"),
        (("--draft", "ngram", "--k", "0"), 2, "--k 0"),
        (("--draft", "ngram", "--arm", "p"), 2, "has no arm 'p'"),
        (("--draft", "ngram", "--out", "none/found.json"), 3, "no folder none"),
        (("--draft", "draft_model:model=./none"), 3, "no folder ./none"),
    ],
)
def test_what_is_wrong_is_said_with_an_exit_code(run, capsys, arguments, code, said):
    assert replay(run, *arguments) == code
    assert said in capsys.readouterr().err


def test_other_weights_exit_with_6(run, capsys, tmp_path):
    from tests.experiment.replayed_run import write_model

    write_model(tmp_path, 0.5)
    arguments = ("--draft", "ngram", "--limit", 1, "--k", 1, "--target", tmp_path)
    assert replay(run, *arguments) == 6
    assert "--assume-same" in capsys.readouterr().err
    assert replay(run, *arguments, "--assume-same") == 0
    assert "taken as the same" in capsys.readouterr().out


def test_a_run_that_is_not_there(capsys):
    assert call(["replay", "nowhere", "--draft", "ngram"]) == 3
    said = capsys.readouterr().err
    assert "no run 'nowhere'" in said
    assert "--runs names the folder of runs" in said


def test_last_of_an_empty_folder_names_the_option_of_this_command(capsys, tmp_path):
    assert call(["replay", "last", "--draft", "ngram", "--runs", str(tmp_path)]) == 3
    said = capsys.readouterr().err
    assert "name the folder of runs with --runs" in said
    assert "--out" not in said


@pytest.mark.parametrize(
    ("text", "values"), [("1", (1,)), ("3", (1, 2, 3)), ("5,3", (3, 5)), ("8,", None), ("x", None),
                         ("2,2", None), ("65", None), ("-1", None), ("", None)]
)  # fmt: skip
def test_longest_drafts(text, values):
    if values is not None:
        assert longest_drafts(text) == values
        return
    with pytest.raises(UsageError, match="whole numbers of 1 to 64"):
        longest_drafts(text)

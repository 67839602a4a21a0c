"""Quality of a run's answers: scored once, code only where asked, its outcomes kept."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from shutil import copytree

import pytest

from specbench.core.quantity import Absence
from specbench.errors import PrerequisiteError
from specbench.experiment.analyse import analyse
from specbench.experiment.quality import measure_quality
from specbench.quality import score
from specbench.quality.sandbox_outcome import Outcome, Ran
from specbench.quality.score import NOT_EXECUTED
from specbench.results.cells import Cell, cell_records
from specbench.results.read import read_run
from specbench.results.schema import ResultError
from specbench.results.store import RunFolder
from tests.cli.scripted_runs import NGRAM, Bench

PYTHON = {"kind": "python", "entry_point": "f", "tests": "assert f(1) == 2\n"}
JSON = {"kind": "json", "required": ["a"]}
HEADER = "Write the body.\n\n```python\ndef f(x):\n```"
RIGHT, WRONG = "def f(x):\n    return x + 1", "def f(x):\n    return x"
VALID, BROKEN = '{"a": 1}', '{"a": '
ANSWERS = {
    "plain": [RIGHT, RIGHT, WRONG, VALID, VALID, "free"],
    "ngram": [RIGHT, WRONG, WRONG, VALID, BROKEN, "free"],
}


class FakeSandbox:
    """Runs nothing; a program passes where it adds one."""

    def __init__(self):
        self.programs = []

    def run(self, program):
        self.programs.append(program)
        return Ran(Outcome.PASSED if "x + 1" in program else Outcome.FAILED, "")


@pytest.fixture
def sandbox(monkeypatch):
    made = FakeSandbox()
    monkeypatch.setattr(score, "open_sandbox", lambda: made)
    return made


@pytest.fixture
def no_sandbox(monkeypatch):
    def refuse():
        raise AssertionError("a sandbox was opened")

    monkeypatch.setattr(score, "open_sandbox", refuse)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A scripted run whose recorded answers are those above."""
    place = tmp_path_factory.mktemp("scored")
    with pytest.MonkeyPatch.context() as patch:
        bench = Bench(place, patch)
        experiment = bench.write(items=6, arms=NGRAM, temperatures="[0.7]")
        suite = place / "prompts.jsonl"
        rows = [json.loads(line) for line in suite.read_text().splitlines()]
        for index, row in enumerate(rows):
            row["category"] = "even" if index % 2 == 0 else "odd"
            row["turns"] = [HEADER]
            if index < 5:
                row["scoring"] = PYTHON if index < 3 else JSON
        suite.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert bench.run(experiment) == 0
        answer(bench.last(), ANSWERS)
        return bench.last()


@pytest.fixture
def folder(made, tmp_path):
    """A copy of the run."""
    return RunFolder(copytree(made, tmp_path / made.name))


def answer(path, answers):
    """Put answers into the records of a run, by arm and item."""
    traces = path / "traces.jsonl"
    records = [json.loads(line) for line in traces.read_text().splitlines()]
    for record in records:
        if record["record"] == "trace":
            record["text"] = answers[record["arm"]][int(record["key"]["item"][1:])]
    traces.write_text("".join(json.dumps(record) + "\n" for record in records))


def measured(folder, execute=False):
    recorded = read_run(folder)
    found = measure_quality(folder, recorded, cell_records(recorded), execute)
    return found, {cell.arm: quality.metrics for cell, quality in found.cells.items()}


def values(row):
    return tuple(row[stat].value for stat in ("value", "plain", "difference"))


@pytest.mark.usefixtures("no_sandbox")
def test_code_is_not_run_unless_asked(folder):
    found, metrics = measured(folder)
    assert found.warning == ""
    code = metrics["ngram"]["quality_code"]
    for stat in ("value", "plain", "difference", "p"):
        assert code[stat].value.reason == NOT_EXECUTED
    assert not folder.scores.exists()
    assert values(metrics["ngram"]["quality_json"]) == (0.5, 1.0, -0.5)
    # One pair of two differs: McNemar's exact test cannot find that remarkable.
    assert metrics["ngram"]["quality_json"]["p"].value == 1.0


def test_every_score_stands_in_the_items(folder, sandbox):
    analyse(folder, execute=True)
    with folder.items.open(newline="") as file:
        rows = {row["item"]: row for row in csv.DictReader(file) if row["arm"] == "ngram"}
    found = [(rows[f"p{n:02}"]["scored_by"], rows[f"p{n:02}"]["score"]) for n in range(6)]
    code = [("quality_code", score) for score in ("1.0", "0.0", "0.0")]
    assert found == [*code, ("quality_json", "1.0"), ("quality_json", "0.0"), ("", "")]


def test_cells_of_categories_are_left_out(folder):
    found, _ = measured(folder)
    assert set(found.cells) == {Cell("prompts", 0.7, 1, arm) for arm in ("plain", "ngram")}
    assert any(cell.category for cell in cell_records(read_run(folder)))


def test_code_is_run_once_per_program_and_compared_with_plain(folder, sandbox):
    _, metrics = measured(folder, execute=True)
    assert len(sandbox.programs) == 2
    value, plain, difference = values(metrics["ngram"]["quality_code"])
    assert (value, plain) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert difference == pytest.approx(-1 / 3)
    itself = metrics["plain"]["quality_code"]
    assert itself["value"].value == pytest.approx(2 / 3)
    assert not itself["difference"].known


def test_outcomes_are_kept_so_that_tables_can_be_made_again(folder, sandbox, monkeypatch):
    ran, _ = measured(folder, execute=True)
    document = json.loads(folder.scores.read_text())
    assert document["schema_version"] == 1
    assert sorted(document["code"].values()) == [0.0, 1.0]
    assert all(len(name) == 64 for name in document["code"])
    before = folder.scores.read_bytes()
    monkeypatch.setattr(score, "open_sandbox", lambda: pytest.fail("opened"))
    again, _ = measured(folder)
    assert again.cells == ran.cells
    assert folder.scores.read_bytes() == before
    assert len(sandbox.programs) == 2


def test_an_answer_that_was_not_run_leaves_its_cells_unscored(folder, sandbox):
    measured(folder, execute=True)
    other = {**ANSWERS, "ngram": [RIGHT, "def f(x):\n    return 3", WRONG, VALID, VALID, "free"]}
    answer(folder.path, other)
    _, metrics = measured(folder)
    assert metrics["ngram"]["quality_code"]["value"].value.reason == NOT_EXECUTED
    # Plain's own cell holds nothing new.
    assert metrics["plain"]["quality_code"]["value"].value == pytest.approx(2 / 3)
    assert len(sandbox.programs) == 2


def test_answers_without_a_program_are_wrong_and_stay_wrong(folder, sandbox):
    answer(folder.path, {arm: ["no code here"] * 6 for arm in ANSWERS})
    for execute in (True, False):
        _, metrics = measured(folder, execute=execute)
        assert values(metrics["ngram"]["quality_code"]) == (0.0, 0.0, 0.0)
    assert sandbox.programs == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ("{}", "no schema_version"),
        ('{"schema_version": 1}', "cannot be read: KeyError('code')"),
        ('{"schema_version": 1, "code": [1.0]}', "code does not hold outcomes of 0 or 1"),
        ('{"schema_version": 1, "code": {"a": "1"}}', "code does not hold outcomes"),
        ('{"schema_version": 1, "code": {"a": 0.5}}', "code does not hold outcomes"),
        ('{"schema_version": 1, "code": {"a": NaN}}', "code does not hold outcomes"),
        ('{"schema_version": 2, "code": {}}', "schema_version 2 is newer than this specbench"),
    ],
)
def test_a_damaged_file_of_outcomes_is_refused_by_name(folder, content, message):
    folder.scores.write_text(content)
    with pytest.raises(ResultError) as refused:
        measured(folder)
    assert str(folder.scores) in refused.value.message
    assert message in refused.value.message


def test_running_the_code_replaces_a_damaged_file(folder, sandbox):
    folder.scores.write_text("{")
    _, metrics = measured(folder, execute=True)
    assert metrics["ngram"]["quality_code"]["value"].value == pytest.approx(1 / 3)
    assert json.loads(folder.scores.read_text())["code"]


def test_a_machine_without_walls_runs_nothing(folder, monkeypatch):
    def refuse():
        raise PrerequisiteError("cannot be cut off", "leave code unscored")

    monkeypatch.setattr(score, "open_sandbox", refuse)
    with pytest.raises(PrerequisiteError, match="cannot be cut off"):
        measured(folder, execute=True)
    assert not folder.scores.exists()


@pytest.mark.parametrize("gone", [True, False])
def test_a_suite_that_is_not_there_or_changed_is_a_warning(folder, tmp_path, gone):
    manifest = json.loads(folder.manifest.read_text())
    workload = manifest["experiment"]["workload"]
    other = tmp_path / "prompts.jsonl"
    if not gone:
        other.write_text(Path(workload["suites"][0]).read_text().replace("body", "code"))
    workload["suites"] = [str(other)]
    folder.manifest.write_text(json.dumps(manifest))
    found, metrics = measured(folder)
    assert found.warning.startswith("answers are not scored: ")
    assert "prompts.jsonl" in found.warning
    for row in metrics["ngram"].values():
        assert row["value"].value.absence is Absence.NOTHING_TO_MEASURE
        assert row["value"].value.reason in found.warning
    summary = analyse(folder, write=False)
    assert found.warning in summary.warnings
    assert all(not row.quality for row in summary.rows)


def test_the_summary_holds_scored_metrics_and_how_they_were_computed(folder, sandbox):
    summary = analyse(folder, execute=True)
    (row,) = [row for row in summary.rows if row.arm == "ngram"]
    assert set(row.quality) == {"quality_code", "quality_json"}
    code = row.quality["quality_code"]
    assert code["difference"].value == pytest.approx(-1 / 3)
    assert (code["p"].value, code["p"].n) == (1.0, 3)
    assert summary.signatures["quality_code"].startswith("python:3.")
    table = folder.table.read_text()
    assert ",quality_code,difference,quality_code@1,1,-0.333" in table
    assert all(math.isfinite(figure.value) for figure in code.values())
    plain = analyse(folder)
    assert plain.rows == summary.rows

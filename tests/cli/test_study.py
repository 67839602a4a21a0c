"""`specbench run` of a study, end to end on the scripted engine: a run per value of one key."""

from __future__ import annotations

import csv
import io
import json
import shutil

import pytest

from specbench.cli.main import call
from specbench.engines import scripted
from specbench.engines.scripted import ScriptedEngine
from specbench.errors import PrerequisiteError
from tests.cli.scripted_runs import Bench

STUDY = """
[study]
key = "target.quant"
values = ["none", "int8", "int4"]

[arm.self]
drafter = "ngram"
k = 3

[arm.other]
drafter = "ngram"
k = 2
"""
ACCEPTED = {"none": [3, 2], "int8": [3, 2], "int4": [1, 0]}
"""What the arm ``self`` accepts under each value; ``other`` always accepts one."""


@pytest.fixture
def bench(tmp_path, monkeypatch):
    found = Bench(tmp_path, monkeypatch)
    opened = scripted.open_engine

    def scripted_by_quant(target, arms):
        accepted = {"self": ACCEPTED[target["quant"]], "other": [1]}
        target = {**target, "options": {**target["options"], "accepted": accepted}}
        return opened(target, arms)

    monkeypatch.setattr(scripted, "open_engine", scripted_by_quant)
    return found


def experiment(bench, items=6, study=STUDY, **options):
    path = bench.write(items=items, arms=study, **options)
    path.write_text(path.read_text().replace("max_new_tokens = 8", "max_new_tokens = 25"))
    return path


def the_study(bench):
    (folder,) = bench.out.iterdir()
    return folder


def document(bench):
    return json.loads((the_study(bench) / "study.json").read_text())


def runs(bench):
    """Those that have begun, in the order of the study's values."""
    return [
        the_study(bench) / member["run"] for member in document(bench)["members"] if member["run"]
    ]


def test_every_value_is_a_run_of_its_own_with_its_own_plain_arm(bench, capsys):
    assert bench.run(experiment(bench)) == 0
    study = the_study(bench)
    assert {path.name for path in study.iterdir() if path.is_file()} == {
        *("study.json", "study.md", "experiment.toml", "experiment.passed.toml"),
    }
    manifests = [json.loads((run / "manifest.json").read_text()) for run in runs(bench)]
    assert [m["identity"]["quant"] for m in manifests] == ["none", "int8", "int4-g32"]
    assert [m["title"] for m in manifests] == [
        f"test title, target.quant = {value}" for value in ("none", "int8", "int4")
    ]
    for run, manifest in zip(runs(bench), manifests, strict=True):
        assert "study" not in manifest["experiment"]
        table = list(csv.DictReader(io.StringIO((run / "table.csv").read_text())))
        assert {row["quant"] for row in table} == {manifest["identity"]["quant"]}
        assert {row["arm"] for row in table} == {"plain", "self", "other"}
    capsys.readouterr()


def test_the_table_holds_runs_against_the_first_by_prompt(bench, capsys):
    bench.run(experiment(bench, items=10))
    shown = capsys.readouterr().out
    rows = {(row["arm"], row["value"]): row["figures"] for row in document(bench)["rows"]}
    # 24 tokens behind the first: 7 steps of 4 and 3 tokens alternately; 16 steps of 2 and 1.
    assert rows["self", "none"]["accept_length"]["value"] == pytest.approx(24 / 7)
    assert rows["self", "int4"]["accept_length"]["value"] == pytest.approx(24 / 16)
    assert rows["self", "int4"]["difference"]["value"] == pytest.approx(24 / 16 - 24 / 7)
    assert rows["self", "int8"]["difference"]["value"] == 0
    assert "difference" not in rows["self", "none"]
    assert rows["other", "int8"]["speedup"]["value"] == pytest.approx(2.0, rel=0.01)
    assert "test title: target.quant = none, int8, int4" in shown
    assert "speeds of different runs are not compared" in shown
    assert max(map(len, shown.splitlines())) <= 120
    first, second = document(bench)["sentences"]
    assert "At temperature 0, self: quantising the target to int4-g32 costs 1.929" in first
    assert "no difference detected at this n: quantising the target to int8 (equal on" in first
    assert "costs" not in second


def test_show_prints_a_study_again_in_every_form(bench, capsys):
    bench.run(experiment(bench))
    study = the_study(bench)
    printed = capsys.readouterr().out
    for name in (str(study), study.name, "last"):
        assert call(["show", name, "--out", str(bench.out)]) == 0
        assert capsys.readouterr().out == printed
    assert call(["show", str(study), "--format", "md"]) == 0
    assert capsys.readouterr().out == (study / "study.md").read_text()
    assert call(["show", str(study), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == document(bench)
    assert call(["show", str(study), "--format", "csv"]) == 0
    table = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert len(table) == 1 + 3 * 2


def test_last_is_the_newest_of_runs_and_studies(bench, capsys, monkeypatch):
    bench.run(experiment(bench, items=2))
    monkeypatch.setattr(
        "specbench.experiment.session.new_run_id", lambda settings: "99990101T000000Z-run"
    )
    alone = experiment(bench, items=2, study=STUDY.partition("[arm.self]")[2])
    alone.write_text(alone.read_text().replace('drafter = "ngram"', "", 1).replace("k = 3", "", 1))
    assert bench.run(alone) == 0
    capsys.readouterr()
    assert call(["show", "last", "--out", str(bench.out)]) == 0
    assert "run 99990101T000000Z-run" in capsys.readouterr().out


def test_plan_prints_all_runs_and_runs_none(bench, capsys):
    path = experiment(bench)
    assert bench.run(path, "--plan") == 0
    shown = capsys.readouterr().out
    for place, value in enumerate(("none", "int8", "int4"), start=1):
        assert f"run {place} of 3: target.quant = {value}" in shown
    # 3 runs of 3 arms on 6 prompts of 1 turn, up to 25 tokens each.
    assert "3 runs together: 54 requests, up to 1350 tokens, about" in shown
    assert bench.run(path, "--plan", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["target.quant"] for row in rows] == ["none", "int8", "int4"]
    assert not bench.out.exists()
    assert not bench.engines


def test_an_interrupted_study_is_continued_inside(bench, capsys, monkeypatch):
    path = experiment(bench)
    run, count = ScriptedEngine.run, iter(range(10_000))

    def interrupted(self, arm, requests, concurrency):
        # The second run of three, somewhere in its middle.
        if not requests[0].key.suite.startswith("warm-up/") and next(count) == 30:
            raise KeyboardInterrupt
        yield from run(self, arm, requests, concurrency)

    monkeypatch.setattr(ScriptedEngine, "run", interrupted)
    assert bench.run(path) == 130
    assert f"specbench run --resume {the_study(bench)}" in capsys.readouterr().err.replace("\n", "")
    assert len(runs(bench)) == 2
    states = [member["state"] for member in document(bench)["members"]]
    assert states[2] == "not begun"
    assert "INCOMPLETE" in states[1]
    before = (runs(bench)[0] / "traces.jsonl").read_bytes()
    assert call(["show", str(the_study(bench))]) == 0
    assert "INCOMPLETE" in capsys.readouterr().out
    monkeypatch.setattr(ScriptedEngine, "run", run)
    assert bench.run("--resume", the_study(bench)) == 0
    assert document(bench)["complete"]
    assert len(runs(bench)) == 3
    assert (runs(bench)[0] / "traces.jsonl").read_bytes() == before
    engines = len(bench.engines)
    assert bench.run("--resume", "last") == 0
    assert len(bench.engines) == engines


def test_a_failed_request_makes_a_study_incomplete(bench, capsys):
    options = 'fail = {"prompts/p01/0/self" = "error"}'
    assert bench.run(experiment(bench, items=2, options=options)) == 1
    assert not document(bench)["complete"]
    assert "not every request was done" in capsys.readouterr().err


def test_rescore_makes_all_tables_again(bench, capsys):
    bench.run(experiment(bench, items=3))
    study = the_study(bench)
    printed, wanted = capsys.readouterr().out, (study / "study.json").read_text()
    for run in runs(bench):
        (run / "summary.json").unlink()
        (run / "table.csv").unlink()
    assert call(["rescore", str(study)]) == 0
    assert capsys.readouterr().out == printed
    assert (study / "study.json").read_text() == wanted
    assert all((run / "table.csv").is_file() for run in runs(bench))


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("identity.max_new_tokens", 9, "max_new_tokens: 25 != 9"),
        ("identity.dtype", "bfloat16", 'dtype: "float32" != "bfloat16"'),
        ("seed", 2, "seed: 1 != 2"),
        ("suites.0.items_digest", "x", "prompts.prompts"),
        ("arms.1.k", 9, "arms.self"),
    ],
)
def test_runs_that_differ_in_more_than_the_key_are_refused(bench, capsys, key, value, named):
    bench.run(experiment(bench, items=2))
    manifest = runs(bench)[1] / "manifest.json"
    held = json.loads(manifest.read_text())
    place = held
    *parts, last = key.split(".")
    for part in parts:
        place = place[int(part) if part.isdigit() else part]
    place[last] = value
    manifest.write_text(json.dumps(held))
    capsys.readouterr()
    assert call(["show", str(the_study(bench))]) == 6
    assert named in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--budget", "5m"], "--budget with a study"),
        (["--set", "study.key=workload.seed"], "a study cannot vary it"),
        (["--set", 'study.values=["none"]'], r"study.values"),
        (["--set", 'study.values=["none", "none"]'], "a value occurs twice"),
        (["--set", 'study.values=["none", "int5"]'], "quant"),
        (["--set", "study.vlaues=3"], "did you mean values?"),
    ],
)
def test_what_cannot_be_a_study_is_refused_before_anything_runs(bench, capsys, arguments, named):
    assert bench.run(experiment(bench), *arguments) == 2
    assert named in capsys.readouterr().err
    assert not bench.engines


def test_a_study_is_continued_as_what_it_was(bench, capsys):
    path = experiment(bench, items=2)
    bench.run(path)
    study = the_study(bench)
    assert bench.run(path, "--resume", study, "--set", 'study.values=["none", "int4"]') == 2
    assert "it varies target.quant over none, int8, int4, not" in capsys.readouterr().err
    assert bench.run(path, "--resume", runs(bench)[0]) == 2
    assert "is one run, and experiment test is a study" in capsys.readouterr().err


def test_sampling_can_be_varied_and_only_that_setting_may_differ(bench, capsys):
    study = STUDY.replace('"target.quant"', '"workload.top_p"')
    study = study.replace('["none", "int8", "int4"]', "[1.0, 0.9]")
    assert bench.run(experiment(bench, items=2, study=study)) == 0
    assert [row["value"] for row in document(bench)["rows"]] == ["1.0"] * 2 + ["0.9"] * 2
    manifest = runs(bench)[1] / "manifest.json"
    held = json.loads(manifest.read_text())
    held["identity"]["sampling"][0]["min_p"] = 0.1
    manifest.write_text(json.dumps(held))
    capsys.readouterr()
    assert call(["show", str(the_study(bench))]) == 6
    assert "sampling" in capsys.readouterr().err


def of_penalty(bench, values):
    study = STUDY.replace('"target.quant"', '"workload.repetition_penalty"')
    return experiment(bench, items=2, study=study.replace('["none", "int8", "int4"]', values))


def test_whole_numbers_of_a_decimal_key_find_their_runs_again(bench, capsys):
    path = of_penalty(bench, "[1, 1.1]")
    assert bench.run(path) == 0
    found = document(bench)
    assert found["complete"]
    assert found["values"] == ["1.0", "1.1"]
    assert [(member["value"], bool(member["run"])) for member in found["members"]] == [
        *(("1.0", True), ("1.1", True)),
    ]
    assert [row["value"] for row in found["rows"]] == ["1.0"] * 2 + ["1.1"] * 2
    assert "workload.repetition_penalty = 1.0" in capsys.readouterr().out
    engines, before = len(bench.engines), len(list(the_study(bench).iterdir()))
    assert bench.run("--resume", the_study(bench)) == 0
    assert bench.run(path, "--resume", the_study(bench)) == 0
    assert bench.run(of_penalty(bench, "[1.0, 1.1]"), "--resume", the_study(bench)) == 0
    assert len(bench.engines) == engines
    assert len(list(the_study(bench).iterdir())) == before
    assert call(["rescore", str(the_study(bench))]) == 0


@pytest.mark.parametrize(
    ("key", "values", "twice"),
    [
        ("workload.repetition_penalty", "[1, 1.0]", "1.0"),
        ("workload.system_policy", '["merge", "merge-into-user"]', "merge-into-user"),
    ],
)
def test_one_value_written_in_two_ways_is_there_twice(bench, capsys, key, values, twice):
    settings = ["--set", f"study.key={key}", "--set", f"study.values={values}"]
    assert bench.run(experiment(bench), *settings) == 2
    assert f"study.values: a value occurs twice: {twice}" in capsys.readouterr().err
    assert not bench.engines


@pytest.mark.parametrize(
    "command",
    [["replay", "--draft", "ngram", "--runs"], ["fidelity", "--out"], ["show", "--out"]],
)
def test_a_study_where_one_run_is_needed_names_its_runs(bench, capsys, command):
    bench.run(experiment(bench, items=2))
    study = the_study(bench)
    for name in ("last", study.name, str(study)):
        capsys.readouterr()
        several = [name] if command[0] == "show" else []
        assert call([command[0], name, *several, *command[1:], str(bench.out)]) == 2
        said = capsys.readouterr().err
        assert f"{study} is a study, and one run is needed" in said
        for run, value in zip(runs(bench), ("none", "int8", "int4"), strict=True):
            assert f"{run}  (test title, target.quant = {value})" in said


def test_a_study_of_which_no_run_has_begun_says_how_to_begin(bench, capsys):
    bench.run(experiment(bench, items=2))
    for run in runs(bench):
        shutil.rmtree(run)
    capsys.readouterr()
    assert call(["fidelity", "last", "--out", str(bench.out)]) == 2
    said = capsys.readouterr().err
    assert f"none of its runs has begun: specbench run --resume {the_study(bench)}" in said


def test_no_study_is_begun_that_could_not_run(bench, monkeypatch):
    def missing(self):
        if self.prepared.experiment.target.quant == "int4":
            raise PrerequisiteError("no engine for the third run")

    monkeypatch.setattr("specbench.experiment.session.Session._require_engine", missing)
    assert bench.run(experiment(bench)) == 3
    assert not list(bench.out.iterdir())
    assert not bench.engines


def test_a_study_that_skipped_requests_is_not_done(bench, capsys):
    """As a single run: a prompt beyond the context is skipped under each of the three values."""
    path = experiment(bench, items=3, options="context = 40")
    suite = bench.folder / "prompts.jsonl"
    rows = [json.loads(text) for text in suite.read_text().splitlines()]
    rows[0]["turns"] = ["w " * 41]
    suite.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert bench.run(path) == 1
    assert [member["skipped"] for member in document(bench)["members"]] == [3, 3, 3]
    assert "9 requests were skipped" in capsys.readouterr().err

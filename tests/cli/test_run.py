"""`specbench run` end to end on the scripted engine (cases D9, F1, F2, F4, H2, H7, H8)."""

from __future__ import annotations

import csv
import io
import json

import pytest

from specbench.cli.main import call
from specbench.engines.scripted import ScriptedEngine
from specbench.results.read import read_run
from specbench.results.store import RunFolder
from tests.cli.scripted_runs import NGRAM, Bench

ACCEPT = "accepted = {ngram = [3, 0, 2]}\nstep_ms = {ngram = 12}"
VOLATILE = {"resumed", "trace_sha256"}


@pytest.fixture
def bench(tmp_path, monkeypatch):
    return Bench(tmp_path, monkeypatch)


def strict(text):
    def refuse(constant):
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


def items(folder):
    rows = csv.DictReader(io.StringIO((folder / "items.csv").read_text()))
    return [{k: v for k, v in row.items() if k not in VOLATILE} for row in rows]


def stable_summary(folder):
    document = json.loads((folder / "summary.json").read_text())
    return {k: v for k, v in document.items() if k not in ("run", "resumes")}


def stable_table(folder):
    rows = csv.DictReader(io.StringIO((folder / "table.csv").read_text()))
    return [{k: v for k, v in row.items() if k != "run"} for row in rows]


def test_a_run_writes_every_file_and_prints_its_table(bench, capsys):
    code = bench.run(bench.write(arms=NGRAM, options=ACCEPT))
    shown = capsys.readouterr().out
    assert code == 0
    names = {path.name for path in bench.last().iterdir()}
    assert names == {
        *("manifest.json", "experiment.toml", "experiment.passed.toml", "traces.jsonl"),
        *("items.csv", "table.csv", "summary.json", "summary.md"),
    }
    assert shown.startswith("test title: scripted-model")
    assert "ngram had the largest speed-up" in shown
    assert str(bench.last()) in shown.replace("\n", "")
    assert max(map(len, shown.splitlines())) <= 120


def test_manifest_is_on_disk_before_the_first_request(bench, monkeypatch):
    seen = []

    def look(self, arm, requests, concurrency):
        if not requests[0].key.suite.startswith("warm-up/"):
            seen.append((bench.last() / "manifest.json").is_file())
        return iter(())

    experiment = bench.write(items=1)
    monkeypatch.setattr(ScriptedEngine, "run", look)
    assert bench.run(experiment) == 1
    assert seen == [True]


def test_warm_up_leaves_no_trace_and_no_tick(bench):
    bench.run(bench.write(items=2))
    recorded = read_run(RunFolder(bench.last()))
    assert {key.suite for key, _, _ in recorded.traces} == {"prompts"}
    ticks = sum(len(found) for found in recorded.ticks.values())
    steps = sum(len(trace.steps) + 1 for trace in recorded.traces.values())
    assert ticks == steps


def test_resume_after_a_kill_repeats_nothing_and_loses_nothing(bench, capsys):
    experiment = bench.write(items=10)
    assert bench.run(experiment) == 0
    whole = bench.last()
    traces = whole / "traces.jsonl"
    lines = traces.read_bytes().splitlines(keepends=True)
    wanted = (items(whole), stable_summary(whole), stable_table(whole))
    places = [i for i, line in enumerate(lines) if json.loads(line)["record"] == "trace"]
    seventh = lines[places[6]]
    torn = [*lines[: places[6]], seventh[: len(seventh) // 2]]
    traces.write_bytes(b"".join(torn))
    for name in ("items.csv", "table.csv", "summary.json", "summary.md"):
        (whole / name).unlink()
    assert bench.run("--resume", whole) == 0
    assert len(bench.calls()) == 4
    records = bench.records()
    assert len({record["key"]["item"] for record in records}) == len(records) == 10
    assert [record["resumed"] for record in records] == [0] * 6 + [1] * 4
    assert traces.read_bytes().startswith(b"".join(lines[: places[6]]))
    assert (items(whole), stable_summary(whole), stable_table(whole)) == wanted
    capsys.readouterr()
    assert bench.run("--resume", "last") == 0
    assert "is finished: nothing to resume" in capsys.readouterr().err
    assert len(bench.engines) == 2


def test_torn_line_in_the_middle_is_an_error(bench, capsys):
    bench.run(bench.write(items=3))
    traces = bench.last() / "traces.jsonl"
    lines = traces.read_bytes().splitlines(keepends=True)
    traces.write_bytes(b"".join([lines[0], lines[1][:40] + b"\n", *lines[2:]]))
    before = traces.read_bytes()
    assert bench.run("--resume", "last") == 2
    assert "traces.jsonl, line 2: damaged" in capsys.readouterr().err
    assert traces.read_bytes() == before


def test_resume_under_other_settings_is_refused_by_key(bench, capsys):
    experiment = bench.write(items=2)
    bench.run(experiment)
    assert bench.run(experiment, "--resume", "last", "--set", "workload.seed=9") == 2
    assert "workload.seed: 1 -> 9" in capsys.readouterr().err
    assert len(bench.engines) == 1


def test_resume_with_a_changed_suite_is_refused(bench, capsys):
    experiment = bench.write(items=2)
    bench.run(experiment)
    suite = bench.folder / "prompts.jsonl"
    suite.write_text(suite.read_text().replace("word1", "other"))
    traces = bench.last() / "traces.jsonl"
    traces.write_bytes(b"".join(traces.read_bytes().splitlines(keepends=True)[:2]))
    assert bench.run("--resume", "last") == 2
    assert "identity.suites.prompts.digest" in capsys.readouterr().err


def test_out_of_memory_is_a_status_and_is_tried_again(bench, capsys):
    experiment = bench.write(items=10, options='fail = {"prompts/p06/0/plain" = "raise"}')
    assert bench.run(experiment) == 1
    shown = capsys.readouterr()
    finishes = {record["key"]["item"]: record["finish"] for record in bench.records()}
    assert finishes.pop("p06") == "oom"
    assert set(finishes.values()) == {"length"}
    assert "INCOMPLETE, not to be ranked: 10 conversations, 9 of 10 requests done" in shown.out
    assert "CUDA out of memory" in shown.out
    assert "--resume" in shown.err
    # The retry fails again: the engine is called for the failed item alone.
    assert bench.run("--resume", "last") == 1
    assert [request.key.item for _, request in bench.calls()] == []
    assert len(bench.records()) == 11


def test_all_failed_prints_a_table_and_exits_non_zero(bench, capsys):
    fail = ", ".join(f'"prompts/p{i:02}/0/plain" = "error"' for i in range(3))
    assert bench.run(bench.write(items=3, options=f"fail = {{{fail}}}")) == 1
    shown = capsys.readouterr().out
    assert "n/a[1]" in shown
    assert "no speed-up could be measured" in shown
    strict((bench.last() / "summary.json").read_text())
    for line in (bench.last() / "traces.jsonl").read_text().splitlines():
        strict(line)
    rows = csv.DictReader(io.StringIO((bench.last() / "table.csv").read_text()))
    tpot = next(row for row in rows if row["metric"] == "tpot" and row["stat"] == "p50")
    assert tpot["value"] == ""
    assert tpot["reason"]


def test_one_token_answers_have_no_tpot_but_an_end(bench):
    assert bench.run(bench.write(items=3, options="length = 1")) == 0
    rows = list(csv.DictReader(io.StringIO((bench.last() / "table.csv").read_text())))
    cell = {(row["metric"], row["stat"]): row for row in rows}
    assert cell["tpot", "p50"]["value"] == ""
    assert float(cell["latency_e2e", "p50"]["value"]) == 20.0


def test_empty_and_long_prompts_are_skipped_with_their_reason(bench, capsys):
    experiment = bench.write(items=1, options="context = 16")
    texts = {"empty": "", "fits": "w " * 15, "full": "w " * 16, "long": "w " * 17}
    rows = [{"id": name, "category": "all", "turns": [text]} for name, text in texts.items()]
    suite = bench.folder / "prompts.jsonl"
    suite.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert bench.run(experiment) == 1
    found = {record["key"]["item"]: record for record in bench.records()}
    assert found["empty"]["error"] == "skipped: empty prompt"
    assert found["full"]["error"] == "skipped: no room"
    assert found["long"]["error"] == "skipped: prompt 17 > context 16"
    assert len(found["fits"]["output_ids"]) == 1
    assert [request.key.item for _, request in bench.calls()] == ["fits"]
    assert "3 skipped" in capsys.readouterr().out


def test_turns_are_counted_and_hold_the_earlier_answer_once(bench):
    assert bench.run(bench.write(items=2, turns=2, arms=NGRAM, options=ACCEPT)) == 0
    calls = bench.calls()
    assert len(calls) == 8
    manifest = json.loads((bench.last() / "manifest.json").read_text())
    assert (manifest["suites"][0]["items"], manifest["suites"][0]["turns"]) == (2, 4)
    lengths = {
        (arm, request.key.item): len(request.token_ids)
        for arm, request in calls
        if request.key.turn == 1
    }
    # "wordN turn0", eight answer words, one end token, "wordN turn1"
    assert set(lengths.values()) == {2 + 8 + 1 + 2}


def test_second_turn_is_skipped_if_the_first_failed_and_comes_back_on_resume(bench):
    fail = 'fail = {"prompts/p00/0/plain" = "error"}'
    assert bench.run(bench.write(items=2, turns=2, options=fail)) == 1
    found = {(r["key"]["item"], r["key"]["turn"]): r for r in bench.records()}
    assert found["p00", 1]["finish"] == "skipped"
    assert found["p00", 1]["error"] == "skipped: turn 1 failed"
    assert found["p01", 1]["finish"] == "length"


def test_ctrl_c_keeps_what_was_finished_and_says_how_to_go_on(bench, capsys, monkeypatch):
    played = ScriptedEngine.run

    def interrupted(self, arm, requests, concurrency):
        if requests[0].key.item == "p02" and not requests[0].key.suite.startswith("warm-up/"):
            raise KeyboardInterrupt
        return played(self, arm, requests, concurrency)

    experiment = bench.write(items=4)
    with monkeypatch.context() as patch:
        patch.setattr(ScriptedEngine, "run", interrupted)
        assert bench.run(experiment) == 130
    assert f"specbench run --resume {bench.last()}" in capsys.readouterr().err
    kept = len(bench.records())
    assert bench.run("--resume", "last") == 0
    assert len(bench.calls()) == 4 - kept


def test_unwritable_output_is_said_before_the_engine_opens(bench, capsys):
    experiment = bench.write()
    blocked = bench.folder / "file"
    blocked.write_text("")
    assert call(["run", str(experiment), "--out", str(blocked / "results")]) == 2
    assert "cannot write results to" in capsys.readouterr().err
    assert bench.engines == []


def test_blocks_give_every_arm_the_same_prompts(bench):
    experiment = bench.write(items=10, arms=NGRAM, options=ACCEPT)
    assert bench.run(experiment, "--concurrency", "4") == 0
    units = {}
    for record in bench.records():
        units.setdefault((record["unit"], record["arm"]), set()).add(record["key"]["item"])
    names = {unit for unit, _ in units}
    assert len(names) == 2
    for unit in names:
        assert units[unit, "plain"] == units[unit, "ngram"]
        assert len(units[unit, "plain"]) == 5


def test_plan_opens_no_engine_and_writes_nothing(bench, capsys):
    assert bench.run(bench.write(arms=NGRAM), "--plan") == 0
    shown = capsys.readouterr().out
    assert "2 arms, 20 requests, up to 160 tokens" in shown
    assert "assumed 15 tokens/s, not measured" in shown
    assert "smallest difference that 10 prompts can show" in shown
    assert bench.engines == []
    assert not bench.out.exists()


def test_plan_as_json_is_one_document(bench, capsys):
    assert bench.run(bench.write(arms=NGRAM), "--plan", "--json") == 0
    assert strict(capsys.readouterr().out)[0]["requests"] == 20


def test_budget_reduces_prompts_or_refuses(bench, capsys):
    experiment = bench.write(items=10)
    assert bench.run(experiment, "--plan", "--budget", "2s") == 0
    assert "3 requests" in capsys.readouterr().out
    assert bench.run(experiment, "--plan", "--budget", "0.1s") == 2
    assert "is too small" in capsys.readouterr().err
    assert bench.run(experiment, "--plan", "--budget", "fast") == 2


def test_budget_of_a_run_follows_what_warm_up_measured(bench, capsys, monkeypatch):
    from itertools import count

    ticking = count(0, 10**9)
    monkeypatch.setattr("specbench.experiment.session.monotonic", lambda: next(ticking))
    # One second of this clock for the 8 tokens of a calibration request: a second per prompt.
    assert bench.run(bench.write(items=10), "--budget", "4s") == 0
    assert "to stay in time: at most 4 prompts per suite instead of 10" in capsys.readouterr().err
    assert len(bench.records()) == 4
    assert "limit = 4" in (bench.last() / "experiment.toml").read_text()


def test_a_long_run_says_its_cost_first(bench, capsys, monkeypatch):
    from itertools import count

    ticking = count(0, 10**12)
    monkeypatch.setattr("specbench.experiment.session.monotonic", lambda: next(ticking))
    bench.run(bench.write(items=2))
    assert "1 arms, 2 requests, up to 16 tokens, about 33.3 minutes" in capsys.readouterr().err


def test_formats_are_one_document_each(bench, capsys):
    bench.run(bench.write(arms=NGRAM, options=ACCEPT), "--json")
    document = strict(capsys.readouterr().out)
    assert document["title"] == "test title"
    for form, start in (("md", "# test title"), ("csv", "suite,T,arm")):
        assert call(["show", "last", "--out", str(bench.out), "--format", form]) == 0
        assert capsys.readouterr().out.startswith(start)


def test_rescore_rebuilds_the_same_tables(bench):
    bench.run(bench.write(arms=NGRAM, options=ACCEPT))
    names = ("items.csv", "table.csv", "summary.json", "summary.md")
    before = {name: (bench.last() / name).read_bytes() for name in names}
    for name in names:
        (bench.last() / name).unlink()
    assert call(["rescore", str(bench.last())]) == 0
    assert {name: (bench.last() / name).read_bytes() for name in names} == before


def test_mismatch_at_temperature_zero_is_named(bench, capsys):
    options = ACCEPT + "\ndiverge = {ngram = 5}\nmargin = 9.0"
    assert bench.run(bench.write(items=3, arms=NGRAM, options=options)) == 0
    shown = capsys.readouterr().out
    assert "MISMATCH 3/3" in shown
    assert "index 5" in shown


def test_a_difference_that_no_logits_explain_is_named_and_ranked(bench, capsys):
    options = ACCEPT + "\ndiverge = {ngram = 5}"
    assert bench.run(bench.write(items=3, arms=NGRAM, options=options)) == 0
    shown = capsys.readouterr().out
    assert "differs 3/3" in shown
    assert "output_unjudged" in shown
    assert "ngram had the largest speed-up" in shown


def test_show_of_a_run_without_a_summary_reads_its_traces_and_writes_nothing(bench, capsys):
    bench.run(bench.write(arms=NGRAM, options=ACCEPT))
    whole = capsys.readouterr().out
    (bench.last() / "summary.json").unlink()
    assert call(["show", "last", "--out", str(bench.out)]) == 0
    assert capsys.readouterr().out == whole
    assert not (bench.last() / "summary.json").exists()

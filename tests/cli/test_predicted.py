"""The prediction in a run, in a resumed one, and in one from before steps were timed."""

from __future__ import annotations

import csv
import io
import json

import pytest

from specbench.cli.main import call
from tests.cli.scripted_runs import NGRAM, Bench

SCRIPT = "accepted = {ngram = [3, 0, 2]}\nstep_ms = {ngram = 12}"
NOTHING = '[arm.off]\ndrafter = "ngram"\nk = 0\n'
DERIVED = ("items.csv", "table.csv", "summary.json", "summary.md")


@pytest.fixture
def bench(tmp_path, monkeypatch):
    return Bench(tmp_path, monkeypatch)


def table(folder, metric, arm="ngram"):
    rows = csv.DictReader(io.StringIO((folder / "table.csv").read_text()))
    return {r["stat"]: r for r in rows if r["metric"] == metric and r["arm"] == arm}


def derived(folder):
    return {name: (folder / name).read_bytes() for name in DERIVED}


def test_where_steps_take_what_the_script_says_the_prediction_is_exact(bench, capsys):
    assert bench.run(bench.write(arms=NGRAM + NOTHING, options=SCRIPT)) == 0
    parts = table(bench.last(), "predicted_speedup")
    # 7 tokens behind the prefill's in steps of 4, 1 and 2 tokens: 12 ms each, plain 10 ms
    assert float(parts["value"]["value"]) == pytest.approx(7 / 3 / 1.2)
    assert float(parts["accept_length"]["value"]) == pytest.approx(7 / 3)
    assert [float(parts[name]["value"]) for name in ("drafted", "d", "v")] == [1.0, 0.0, 1.2]
    errors = table(bench.last(), "prediction_error")
    assert float(errors["value"]["value"]) == pytest.approx(0, abs=1e-12)
    # With the prefill of 20 ms: plain 90 ms, the arm 56 ms
    assert float(errors["e2e"]["value"]) == pytest.approx(7 / 3.6 / (90 / 56) - 1)
    assert "K = 0" in table(bench.last(), "predicted_speedup", "off")["value"]["reason"]
    assert "reference" in table(bench.last(), "predicted_speedup", "plain")["value"]["reason"]
    line = "T=0 ngram: 1.94x = 2.33 / (d 0.00 + v 1.20 + o 0.00), measured 1.94x (+0 %)"
    assert line in capsys.readouterr().out
    assert call(["show", str(bench.last())]) == 0
    assert line in capsys.readouterr().out


def test_the_manifest_holds_the_costs_before_the_first_request(bench):
    bench.run(bench.write(items=4, arms=NGRAM, options=SCRIPT), "--limit", "2")
    steps = json.loads((bench.last() / "manifest.json").read_text())["calibration"]["steps"]
    (costs,) = steps["arms"]["ngram"]
    assert (costs["temperature"], costs["concurrency"], costs["t1_ms"]) == (0.0, 1, 10.0)
    assert costs["drafted"]["step"] == 1.2
    assert costs["other_prompts"]
    warmed = [request for _, request in bench.engines[-1].calls if "warm-up" in request.key.suite]
    measured = {request.key.item for _, request in bench.calls()}
    assert measured
    assert not measured & {request.key.item for request in warmed}


def test_a_resumed_run_keeps_the_costs_of_its_first_session(bench):
    experiment = bench.write(arms=NGRAM, options=SCRIPT)
    assert bench.run(experiment) == 0
    folder = bench.last()
    before = {name: table(folder, name) for name in ("predicted_speedup", "prediction_error")}
    manifest = (folder / "manifest.json").read_bytes()
    traces = folder / "traces.jsonl"
    lines = traces.read_bytes().splitlines(keepends=True)
    places = [i for i, line in enumerate(lines) if json.loads(line)["record"] == "trace"]
    traces.write_bytes(b"".join(lines[: places[8]]))
    assert bench.run("--resume", folder) == 0
    assert (folder / "manifest.json").read_bytes() == manifest
    assert {name: table(folder, name) for name in before} == before
    # Of the second engine nothing was timed beyond the warm-up pass of each arm.
    warmed = [arm for arm, request in bench.engines[-1].calls if "warm-up" in request.key.suite]
    assert warmed == ["plain", "ngram"]


def test_a_run_from_before_has_no_such_rows_and_keeps_its_tables(bench, capsys):
    bench.run(bench.write(arms=NGRAM, options=SCRIPT))
    folder = bench.last()
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["calibration"]["steps"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    capsys.readouterr()
    assert call(["rescore", str(folder)]) == 0
    assert "redicted" not in capsys.readouterr().out
    assert not any(b"predict" in text for text in derived(folder).values())
    assert table(folder, "speedup")["value"]["value"]
    once = derived(folder)
    assert call(["rescore", str(folder)]) == 0
    assert derived(folder) == once


def test_the_metric_is_listed(capsys):
    assert call(["list", "metrics"]) == 0
    text = capsys.readouterr().out
    assert "predicted_speedup" in text
    assert "prediction_error" in text

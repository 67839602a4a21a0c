"""`specbench compare` of runs on the scripted engine: forms, exit codes, no torch."""

from __future__ import annotations

import csv
import io
import json

import pytest

from specbench.cli.main import call
from tests.cli.scripted_runs import NGRAM, Bench

TWO_ARMS = NGRAM + '[arm.longer]\ndrafter = "ngram"\nk = 5\n'
OPTIONS = "accepted = {ngram = [1, 0, 1], longer = [3, 2, 3]}\nstep_ms = {ngram = 12, longer = 12}"


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    made = Bench(tmp_path, monkeypatch)
    assert made.run(made.write(items=8, arms=TWO_ARMS, options=OPTIONS)) == 0
    capsys.readouterr()
    return made


def compared(bench, *arguments):
    return call(["compare", *map(str, arguments), "--out", str(bench.out)])


def test_two_arms_of_the_last_run(bench, capsys):
    assert compared(bench, "last:ngram", "last:longer") == 0
    shown = capsys.readouterr().out
    assert "longer against" in shown
    line = next(line for line in shown.splitlines() if "accept_length" in line)
    assert line.split()[-1] == "better"
    assert "fidelity" in shown


def test_json_and_csv_hold_every_number(bench, capsys):
    assert compared(bench, "last:ngram", "last:longer", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["measure"] for row in rows} >= {"accept_length", "itl", "speedup", "fidelity"}
    length = next(row for row in rows if row["measure"] == "accept_length")
    assert length["ratio"] == pytest.approx(length["new_value"] / length["base_value"])
    assert length["verdict"] == "better"
    assert compared(bench, "last:ngram", "last:longer", "--format", "csv") == 0
    again = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert float(again[0]["ratio"]) == rows[0]["ratio"]


def test_markdown_is_a_table_under_a_heading(bench, capsys):
    assert compared(bench, "last:ngram", "last:longer", "--format", "md", "--metric", "itl") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("### ")
    assert lines[2].startswith("| T | group | measure |")
    assert not any("ttft" in line for line in lines)


def test_one_arm_against_the_others(bench, capsys):
    assert compared(bench, "last:ngram", "last") == 0
    assert "longer against" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["last:ngram", "last:longer", "--metric", "spedup"], 2, "speedup"),
        (["last:nothing", "last:longer"], 2, "has no arm 'nothing'"),
        (["missing", "last"], 3, "no run 'missing'"),
        (["last", "last"], 2, "against itself"),
    ],
)
def test_what_cannot_be_asked(bench, capsys, arguments, code, says):
    assert compared(bench, *arguments) == code
    assert says in capsys.readouterr().err


def test_another_length_limit_is_another_measurement(bench, capsys):
    first = bench.last()
    experiment = bench.folder / "experiment.toml"
    shorter = bench.made(experiment, "--set", "workload.max_new_tokens=6")
    capsys.readouterr()
    assert compared(bench, first, shorter) == 6
    assert "max_new_tokens" in capsys.readouterr().err

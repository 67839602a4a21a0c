"""The share of the limit in a run, after rescoring, and in a run that does not know its limit."""

from __future__ import annotations

import json

import pytest

from specbench.cli.main import call
from specbench.core.limit import Limit, Reads
from specbench.experiment import session
from tests.cli.scripted_runs import NGRAM, Bench

LIMIT = Limit(1e9, "made up", Reads(4_000_000, 0))
"""4 ms of reading per step; steps of plain take 10 ms, those of the arm 8 ms."""


@pytest.fixture
def bench(tmp_path, monkeypatch):
    return Bench(tmp_path, monkeypatch)


def run(bench, monkeypatch, limit):
    monkeypatch.setattr(session, "find_limit", lambda engine: limit)
    script = "accepted = {ngram = [3, 0, 2]}\nstep_ms = {ngram = 8}"
    assert bench.run(bench.write(arms=NGRAM, options=script)) == 0
    return bench.last()


def test_a_run_says_how_much_of_the_limit_it_reached(bench, monkeypatch, capsys):
    folder = run(bench, monkeypatch, LIMIT)
    shown = capsys.readouterr().out
    assert "share of the limit reached:\n  T=0 plain: 40%\n  T=0 ngram: 50%\n" in shown
    assert "reading 4 MB of weights at 1 GB/s (made up)" in shown
    markdown = (folder / "summary.md").read_text()
    assert "## Share of the limit reached\n- T=0 plain: 40%\n- T=0 ngram: 50%\n" in markdown
    assert json.loads((folder / "manifest.json").read_text())["calibration"]["limit"]
    derived = {name: (folder / name).read_bytes() for name in ("table.csv", "summary.json")}
    assert b"limit_share" in derived["table.csv"]
    assert call(["rescore", str(folder)]) == 0
    assert {name: (folder / name).read_bytes() for name in derived} == derived


def test_a_run_that_knows_no_limit_says_nothing(bench, monkeypatch, capsys):
    folder = run(bench, monkeypatch, None)
    assert "limit" not in json.loads((folder / "manifest.json").read_text())["calibration"]
    for name in ("table.csv", "summary.json", "summary.md"):
        assert "limit_share" not in (folder / name).read_text()
    assert "share of the limit" not in capsys.readouterr().out
    assert '"limit"' not in (folder / "summary.json").read_text()

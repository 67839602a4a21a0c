"""How many decode steps ran from captured graphs, in a run of which some arms have such steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.cli.main import call
from specbench.core.trace import TickKind
from specbench.engines.scripted import ScriptedEngine
from tests.cli.scripted_runs import NGRAM, Bench

SCRIPT = "accepted = {ngram = [3, 0, 2]}\nstep_ms = {ngram = 8}"
SHOWN = "decode steps that ran from captured graphs:\n"


@pytest.fixture
def bench(tmp_path, monkeypatch):
    return Bench(tmp_path, monkeypatch)


def some_replayed(monkeypatch):
    """Steps of the arm, told by their time; plain has none."""
    drain = ScriptedEngine.drain_ticks

    def marked(engine):
        return [
            replace(
                tick,
                graph=tick.kind is TickKind.DECODE and tick.end_ns - tick.start_ns == 8_000_000,
            )
            for tick in drain(engine)
        ]

    monkeypatch.setattr(ScriptedEngine, "drain_ticks", marked)


def test_a_run_says_how_many_of_its_steps_were_replayed(bench, monkeypatch, capsys):
    some_replayed(monkeypatch)
    assert bench.run(bench.write(arms=NGRAM, options=SCRIPT)) == 0
    folder = bench.last()
    assert f"{SHOWN}  T=0 ngram: 100%\n" in capsys.readouterr().out
    title = SHOWN.removesuffix(":\n").capitalize()
    assert f"## {title}\n- T=0 ngram: 100%\n" in (folder / "summary.md").read_text()
    derived = {name: (folder / name).read_bytes() for name in ("table.csv", "summary.json")}
    assert call(["rescore", str(folder)]) == 0
    assert {name: (folder / name).read_bytes() for name in derived} == derived


def test_a_run_without_graphs_does_not_speak_of_them(bench, capsys):
    assert bench.run(bench.write(arms=NGRAM, options=SCRIPT)) == 0
    assert "graph_share" not in (bench.last() / "summary.json").read_text()
    assert "captured graphs" not in capsys.readouterr().out

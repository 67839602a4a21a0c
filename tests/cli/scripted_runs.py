"""Experiments on the scripted engine for tests of the command line: no model, exact numbers."""

from __future__ import annotations

import json
from pathlib import Path

from specbench import catalog
from specbench.cli.main import call
from specbench.engines import scripted

EXPERIMENT = """
schema_version = 1
name = "test"
title = "test title"
engine = "scripted"
[target]
model = "scripted-model"
[workload]
suites = ["{suite}"]
split = "all"
temperatures = {temperatures}
max_new_tokens = 8
"""

NGRAM = """
[arm.ngram]
drafter = "ngram"
k = 3
"""


class Bench:
    """A folder with a suite and an experiment, and the engines that runs opened."""

    def __init__(self, folder: Path, monkeypatch) -> None:
        self.folder = folder
        self.out = folder / "results"
        self.engines: list[scripted.ScriptedEngine] = []
        monkeypatch.setitem(catalog.ENGINES, "scripted", "specbench.engines.scripted:open_engine")
        opened = scripted.open_engine

        def remember(target, arms):
            engine = opened(target, arms)
            self.engines.append(engine)
            return engine

        monkeypatch.setattr(scripted, "open_engine", remember)
        monkeypatch.setattr("sys.argv", ["specbench", "run"])

    def write(self, items=10, turns=1, arms="", temperatures="[0.0]", options="") -> Path:
        """A suite of ``items`` prompts and an experiment over it; returns the experiment."""
        suite = self.folder / "prompts.jsonl"
        rows = [
            {
                "id": f"p{i:02}",
                "category": "all",
                "turns": [f"word{i} turn{t}" for t in range(turns)],
                "recorded": [f"answer{t}" for t in range(turns - 1)],
            }
            for i in range(items)
        ]
        suite.write_text("".join(json.dumps(row) + "\n" for row in rows))
        path = self.folder / "experiment.toml"
        text = EXPERIMENT.format(suite=suite, temperatures=temperatures)
        if options:
            text += f"[target.options]\n{options}\n"
        path.write_text(text + arms)
        return path

    def run(self, *arguments) -> int:
        """`specbench run` in this folder."""
        return call(["run", *map(str, arguments), "--out", str(self.out), "--yes"])

    def made(self, *arguments) -> Path:
        """The folder of a run that succeeds; runs of one second are not in order of their names."""
        before = set(self.out.iterdir()) if self.out.is_dir() else set()
        assert self.run(*arguments) == 0
        (folder,) = set(self.out.iterdir()) - before
        return folder

    def last(self) -> Path:
        """The newest run."""
        return max(self.out.iterdir())

    def calls(self) -> list[tuple[str, object]]:
        """Measured requests of the newest engine."""
        found = self.engines[-1].calls
        return [entry for entry in found if not entry[1].key.suite.startswith("warm-up/")]

    def records(self) -> list[dict]:
        """Trace records of the newest run."""
        lines = (self.last() / "traces.jsonl").read_text().splitlines()
        return [r for r in map(json.loads, lines) if r["record"] == "trace"]

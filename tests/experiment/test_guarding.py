"""Guards are told what the manifest and the counters of both arms say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.manifest import ArmFactors
from specbench.core.trace import Tally, Window
from specbench.experiment.analyse import analyse
from specbench.experiment.guarding import around
from specbench.results.cells import Cell
from specbench.results.read import Recorded, read_run
from specbench.results.store import RunFolder
from specbench.results.writer import TraceWriter
from tests.cli.scripted_runs import NGRAM, Bench
from tests.results.records import MANIFEST


@pytest.fixture
def bench(tmp_path, monkeypatch):
    return Bench(tmp_path, monkeypatch)


def test_which_servers_were_found_running():
    arms = tuple(ArmFactors(n, "ngram", 3, "rejection", "sglang") for n in ("plain", "eagle"))
    found = Recorded(replace(MANIFEST, arms=arms))
    cell = Cell("suite", 0.0, 1, "eagle")
    assert around(found, cell, ()).served
    assert not around(found, cell, ()).attached
    servers = {"plain": {"url": "started here"}, "eagle": {"url": "http://h"}}
    found.manifest = replace(found.manifest, engine={"servers": servers})
    assert around(found, cell, ()).attached
    assert not around(found, cell._replace(arm="plain"), ()).attached


def test_drafts_in_plain_s_counters_are_told_of_plain_and_of_every_arm_beside_it(bench):
    bench.run(bench.write(arms=NGRAM))
    folder = RunFolder(bench.last())

    def marked():
        return {row.arm for row in analyse(folder).rows if "plain_speculates" in row.guards}

    assert marked() == set()
    unit = next(t.unit for t in read_run(folder).traces.values() if t.arm == "plain")
    writer = TraceWriter(folder)
    writer.windows("plain", unit, [Window(1, Tally("server", verified=9, accepted=4))])
    writer.close()
    assert marked() == {"plain", "ngram"}
    assert "plain_speculates" in analyse(folder).sentence

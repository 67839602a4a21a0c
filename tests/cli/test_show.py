"""`specbench show` of several runs: what may stand in one table, and what is taken as equal."""

from __future__ import annotations

import json

import pytest

from specbench.cli.main import call
from tests.cli.scripted_runs import NGRAM, Bench

ACCEPT = "accepted = {ngram = [3, 0, 2]}\nstep_ms = {ngram = 12}"
NOTE = "taken as equal, not known: weight_hash, dtype"


@pytest.fixture
def two(tmp_path, monkeypatch, capsys):
    """Folders of two runs of one experiment whose servers did not say their weights."""
    bench = Bench(tmp_path, monkeypatch)
    experiment = bench.write(items=2, arms=NGRAM, options=ACCEPT)
    for title in ("one", "two"):
        assert bench.run(experiment, "--set", f"title={title}") == 0
    folders = sorted(bench.out.iterdir())
    for folder in folders:
        manifest = json.loads((folder / "manifest.json").read_text())
        known = manifest["identity"] | {"target_revision": "1", "template_hash": "t"}
        manifest["identity"] = known | {"weight_hash": "unknown", "dtype": "unknown"}
        (folder / "manifest.json").write_text(json.dumps(manifest))
    capsys.readouterr()
    return [str(folder) for folder in folders]


def test_what_servers_do_not_say_is_refused_with_the_way_on(two, capsys):
    assert call(["show", *two]) == 6
    shown = capsys.readouterr().err
    assert "weight_hash: unknown; dtype: unknown" in shown
    assert "the server does not say its weights" in shown
    assert "--assume-same" in shown


def test_what_is_taken_as_equal_stands_under_the_table(two, capsys):
    assert call(["show", "--assume-same", *two]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1] == NOTE
    assert sum("ngram" in line for line in shown) == 2
    assert call(["show", "--assume-same", *two, "--format", "md"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"- {NOTE}"


@pytest.mark.parametrize("form", ["json", "csv"])
def test_documents_for_programs_stay_documents(two, capsys, form):
    assert call(["show", "--assume-same", *two, "--format", form]) == 0
    shown = capsys.readouterr()
    assert NOTE not in shown.out
    assert shown.err.strip() == NOTE


def test_one_run_is_nothing_to_compare(two, capsys):
    assert call(["show", two[0], two[0] + "/"]) == 2
    assert "the same run twice" in capsys.readouterr().err
    assert call(["show", "--assume-same", two[0]]) == 2
    assert "name another run too" in capsys.readouterr().err

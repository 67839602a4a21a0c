"""What doctor finds, on this machine and on machines made up here."""

from __future__ import annotations

import json

from specbench.cli import checks, doctor
from specbench.cli.finding import Check, Status
from specbench.cli.main import call


def test_json_is_one_document_on_stdout(capsys):
    assert call(["doctor", "--json"]) == 0
    found = {check["name"]: check for check in json.loads(capsys.readouterr().out)}
    assert found["torch"]["status"] == "ok"
    assert {"python", "cores", "memory", "CUDA", "demo model", "results"} <= found.keys()


def test_every_gap_in_the_native_engine_has_a_next_step(monkeypatch, capsys):
    monkeypatch.setattr(checks, "_module", lambda name: None)
    assert call(["doctor", "--json"]) == 3
    captured = capsys.readouterr()
    gaps = [check for check in json.loads(captured.out) if check["status"] == "missing"]
    assert [gap["name"] for gap in gaps] == ["torch"]
    assert "specbench-llm[native]" in gaps[0]["fix"]
    assert "cannot run here" in captured.err


def test_optional_gaps_do_not_fail(monkeypatch, capsys):
    gap = Check("chromium", Status.OPTIONAL, "not found")
    monkeypatch.setattr(doctor, "CHECKS", (lambda: iter([gap]),))
    assert call(["doctor"]) == 0
    assert "chromium" in capsys.readouterr().out


def test_console_output_is_plain_off_a_terminal(capsys):
    call(["doctor"])
    assert "\x1b" not in capsys.readouterr().out


def test_an_unwritable_place_for_results_is_missing(monkeypatch):
    monkeypatch.setattr(checks.os, "access", lambda *arguments: False)
    assert {c.name: c.status for c in checks.data()}["results"] is Status.MISSING

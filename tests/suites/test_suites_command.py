"""`specbench suites check` and `stats`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from specbench.cli import suites as command
from specbench.cli.suites import suites
from specbench.errors import UsageError
from tests.suites.conftest import row


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(suites, [str(a) for a in arguments])


def test_check_passes(run, folder):
    done = run("check", folder([row("a", turns=["U1"]), row("b", turns=["U2"])]), "--json")
    assert done.exit_code == 0
    (found,) = json.loads(done.stdout)
    assert (found["status"], found["prompts"], found["requests"]) == ("ok", 2, 2)


def test_check_lists_every_bad_row_and_fails(run, folder):
    path = folder([row("a"), row("B"), row("C")])
    done = run("check", path, "--format", "csv")
    assert isinstance(done.exception, UsageError)
    assert "1 of 1 suites failed" in done.exception.message
    assert "line 2: id: 'B'" in done.stdout
    assert "line 3: id: 'C'" in done.stdout


def test_check_warns_on_stderr(run, folder):
    done = run("check", folder([row("a"), row("b"), row("c", "y", ["V"])]))
    assert done.exit_code == 0
    assert "b: duplicate of a" in done.stderr
    assert "duplicate" not in done.stdout


@pytest.mark.parametrize("form", ["console", "md", "csv", "json"])
def test_stats(run, folder, form):
    done = run("stats", folder([row("a", turns=["one two"]), row("b", "y")]), "--format", form)
    assert done.exit_code == 0
    assert "distinct words" in done.stdout


def test_stats_are_rows(run, folder):
    done = run("stats", folder([row("a", turns=["one two"]), row("b", "y")]), "--json")
    rows = {(r["statistic"], r["group"]): r["value"] for r in json.loads(done.stdout)}
    assert rows["prompts", ""] == 2
    assert rows["category", "y"] == 1
    assert rows["words", "median"] == 1.5
    assert rows["distinct words", "share"] == 1.0


def test_stats_count_the_tokens_of_a_model(run, folder, monkeypatch):
    def letters(text, *, add_special_tokens):
        assert not add_special_tokens
        return [ord(letter) for letter in text]

    monkeypatch.setattr(command, "locate_model", lambda name: SimpleNamespace(path=Path()))
    monkeypatch.setattr(command, "load_tokenizer", lambda path: SimpleNamespace(encode=letters))
    path = folder([row("a", turns=["abc"]), row("b", "y", turns=["a"])])
    done = run("stats", path, "--json", "--tokenizer", "m")
    rows = {(r["statistic"], r["group"]): r["value"] for r in json.loads(done.stdout)}
    assert (rows["tokens", "min"], rows["tokens", "max"]) == (1, 3)
    assert rows["distinct tokens", "share"] == 3 / 4


def test_a_public_set_from_list_to_use(run, tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path))
    source = tmp_path / "copy.jsonl"
    source.write_text('{"question": "Q", "answer": "A"}\n')

    def state():
        rows = json.loads(run("list", "--json").stdout)
        return next((r["fetched"], r["prompts"]) for r in rows if r["name"] == "gsm8k")

    assert state() == ("not fetched", None)
    done = run("fetch", "gsm8k", "--file", source)
    assert done.stdout.strip() == str(tmp_path / "suites" / "gsm8k")
    assert "1 prompts, licence: MIT" in done.stderr
    assert "replaced" not in done.stderr
    assert state() == ("fetched", 1)
    source.write_text('{"question": "Q", "answer": "A"}\n{"question": "R", "answer": "B"}\n')
    assert "replaced 1 prompts by 2" in run("fetch", "gsm8k", "--file", source).stderr
    assert state() == ("fetched", 2)
    assert json.loads(run("check", "gsm8k", "--json").stdout)[0]["status"] == "ok"

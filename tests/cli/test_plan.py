"""`specbench run --plan`: suites and servers, without loading a model or sending a request."""

from __future__ import annotations

import json

import pytest

from specbench.cli.main import call
from specbench.engines.servers import vllm
from specbench.errors import PrerequisiteError
from specbench.suites.split import split_of

IDS = [f"p{i}" for i in range(12)]
IN_TEST = sum(split_of("mine", name) == "test" for name in IDS)


@pytest.fixture
def plan(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["specbench", "run"])
    monkeypatch.chdir(tmp_path)
    rows = [json.dumps({"id": name, "prompt": name}) + "\n" for name in IDS]
    (tmp_path / "mine.jsonl").write_text("".join(rows))

    def run(*arguments, code=0):
        words = ["run", "--suite", "mine.jsonl", "--plan", *arguments]
        assert call(words) == code
        assert not (tmp_path / "results").exists()
        shown = capsys.readouterr()
        return shown.err if code else shown.out

    return run


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(vllm, "package_version", lambda *arguments: "0.33.0")


NATIVE = ("--engine", "scripted", "--target", "m")


def test_a_split_that_leaves_prompts_out_says_so(plan):
    assert "suite mine: 12 prompts, 12 turns" in plan(*NATIVE)
    wanted = f"suite mine: {IN_TEST} of 12 prompts (split test; --split all for the rest)"
    assert wanted in plan(*NATIVE, "--split", "test")
    shown = plan(*NATIVE, "--split", "test", "--limit", "2")
    assert f"suite mine: 2 of 12 prompts (split test has {IN_TEST}; limit 2), 2 turns" in shown


def test_started_servers_are_shown_as_commands(plan, installed):
    shown = plan(
        *("--engine", "vllm", "--target", "org/m", "--drafter", "ngram", "-k", "4"),
        *("--concurrency", "8", "--set", "target.dtype=bfloat16", "--set", "server.starts=3"),
        *("--seed", "9", "--set", "server.prefix_cache=warm"),
    )
    assert "arm plain: vllm, started 3 times, first as (on a free port)\n  vllm serve" in shown
    plain, drafting = shown.split("arm ngram: ")
    assert "--speculative-config" not in plain
    assert "vllm serve org/m --host 127.0.0.1" in drafting
    assert '"num_speculative_tokens": 4' in drafting
    assert drafting.count("--max-num-seqs 8") == plain.count("--max-num-seqs 8") == 1
    assert "--dtype bfloat16" in drafting
    assert "--seed 9" in drafting
    assert "--enable-prefix-caching" in drafting
    assert "6 server starts" in shown
    assert "were not asked" not in shown


def test_attached_servers_are_shown_with_their_addresses(plan):
    shown = plan(
        *("--engine", "vllm", "--url", "http://h:1", "--plain-url", "http://h:2"),
        *("--metrics-url", "http://h:1/a", "--metrics-url", "http://h:1/b"),
    )
    assert "arm plain: vllm at http://h:2, counters at its own /metrics\n" in shown
    assert "arm server: vllm at http://h:1, counters at http://h:1/a, http://h:1/b\n" in shown
    assert "servers were not asked" in shown
    assert "server starts" not in shown


def test_weights_that_must_be_written_out_are_not_for_a_plan(plan, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("written")

    monkeypatch.setattr("specbench.engines.servers.llamacpp.gguf_file", refuse)
    monkeypatch.setattr("specbench.engines.servers.llamacpp.package_version", lambda *a: "1")
    shown = plan("--engine", "llamacpp", "--target", "a-model")
    assert "arm plain: llamacpp, started once, from float32 weights that are written out" in shown


def test_an_engine_that_is_not_installed_is_said_before_anything_is_written(
    plan, monkeypatch, tmp_path, capsys
):
    def missing(python, package, install):
        raise PrerequisiteError(f"{package} is not installed under {python}", install)

    monkeypatch.setattr(vllm, "package_version", missing)
    arguments = ["--engine", "vllm", "--target", "org/m"]
    for form in ("console", "json"):
        shown = plan(*arguments, "--format", form, code=3)
        assert "vllm is not installed under" in shown
        assert "pip install vllm" in shown
    out = tmp_path / "elsewhere"
    assert call(["run", "--suite", "mine.jsonl", *arguments, "--out", str(out), "--yes"]) == 3
    assert not out.exists()
    assert "pip install vllm" in capsys.readouterr().err
    # Its own command line needs no package of ours, and an attached server none at all.
    assert "counters at" in plan("--engine", "vllm", "--url", "http://h:1")
    command = 'server.command=["serve", "{target}", "--port", "{port}"]'
    assert "serve org/m" in plan(*arguments, "--set", command)

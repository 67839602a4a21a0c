"""`specbench fidelity --reference server:URL`: which servers and tokenizers can be named."""

from __future__ import annotations

import pytest

from specbench.cli.main import call
from specbench.errors import PrerequisiteError
from tests.cli.scripted_runs import NGRAM, Bench

ACCEPT = "accepted = {ngram = [3, 0, 2]}\nstep_ms = {ngram = 15}"


@pytest.fixture
def bench(tmp_path, monkeypatch):
    return Bench(tmp_path, monkeypatch)


def judge(bench, *arguments):
    return call(["fidelity", "last", "--out", str(bench.out), *map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "a server of kind 'scripted' cannot score tokens"),
        (["--reference-engine", "vllm"], 3, "no answer from http://127.0.0.1:9"),
    ],
)
def test_a_server_that_cannot_be_the_reference(bench, capsys, arguments, code, message):
    bench.run(bench.write(items=2, arms=NGRAM, options=ACCEPT))
    capsys.readouterr()
    assert judge(bench, "--reference", "server:http://127.0.0.1:9/v1", *arguments) == code
    assert message in capsys.readouterr().err


def test_the_tokenizer_of_a_reference_server_can_be_named(bench, monkeypatch):
    bench.run(bench.write(items=2, arms=NGRAM, options=ACCEPT))
    seen = []

    def remember(url, engine, settings, *, top):
        seen.append((url, settings["server"].get("tokenizer")))
        raise PrerequisiteError("enough")

    monkeypatch.setattr("specbench.engines.scoring.reference.ServerReference", remember)
    assert judge(bench, "--reference", "server:http://h:1") == 3
    assert judge(bench, "--reference", "server:http://h:1", "--tokenizer", "org/t") == 3
    assert seen == [("http://h:1", None), ("http://h:1", "org/t")]

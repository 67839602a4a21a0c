"""Two processes on one machine: what one process does with twice as many batches per step."""

import csv
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w
import torch

from specbench.train.loop.settings import Hooks
from tests.train.loop.toy import Toy, training, write_corpus

ROOT = Path(__file__).parents[3]
STOP = 6


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def together(data, out, recipe):
    """Run two processes to their end; by call, what each found and its weights."""
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    command = [sys.executable, "-m", "tests.train.job.together"]
    command += [str(data), str(out), str(STOP), str(recipe), str(free_port())]
    started = [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **where, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=120)[1].decode() for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0], said
    assert not any("Warning" in line for line in said)
    return {
        name: [
            (
                json.loads((data / f"{name}-{n}.json").read_text()),
                torch.load(data / f"{name}-{n}.pt"),
            )
            for n in range(2)
        ]
        for name in ("begun", "ended", "patience")
    }


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    return folder, write_corpus(folder)


@pytest.fixture(scope="module")
def calls(corpus, bench, tmp_path_factory):
    """What two processes did that train together; where they did so is under ``out``."""
    out = tmp_path_factory.mktemp("together")
    prompts = {"source": "suite", "name": "p", "suite": str(bench.root / "prompts.jsonl")}
    given = {
        "schema_version": 1,
        "name": "both",
        "method": "mtp",
        "target": {"model": str(bench.root / "target")},
        "data": {
            "prompts": [prompts],
            "temperatures": [0.0],
            "max_new_tokens": 40,
            "held_out": 0.2,
        },
        "train": {"epochs": 2, "batch_tokens": 128, "validations": 1},
        "validate": {"suites": []},
    }
    recipe = out / "recipe.toml"
    recipe.write_text(tomli_w.dumps(given))
    return {**together(corpus[0], out, recipe), "out": out}


def test_gradients_are_averaged(corpus, calls, tmp_path):
    method = Toy()
    alone = training(tmp_path, corpus[1], method, accumulate=2)
    standing = alone.run(Hooks(lambda method: {"accept_length": 0.0}))
    for found, state in calls["ended"]:
        assert found["step"] == standing.step
        assert found["tokens"] == standing.tokens
        for name, tensor in method.state().items():
            torch.testing.assert_close(state[name], tensor, rtol=1e-4, atol=1e-6)
    # Loss and norm in the curves are of both.
    rows = []
    for folder in (tmp_path, calls["out"] / "one"):
        with (folder / "curves.csv").open(newline="") as stream:
            rows.append([row for row in csv.DictReader(stream) if row["loss"]])
    for one, other in zip(*rows, strict=True):
        for name in ("step", "loss", "gradient_norm", "learning_rate"):
            assert float(one[name]) == pytest.approx(float(other[name]), rel=1e-3)


def test_both_processes_stay_the_same(calls):
    for call in ("begun", "ended"):
        (_, one), (_, other) = calls[call]
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_batches_are_dealt_out(calls):
    (first, _), (second, _) = calls["begun"]
    assert first["rank"] == [0, 2]
    assert first["numbers"] == list(range(0, 2 * STOP, 2))
    assert second["numbers"] == list(range(1, 2 * STOP, 2))


def test_the_first_says_when_to_stop(calls):
    begun, ended = calls["begun"], calls["ended"]
    assert [found["step"] for found, _ in begun] == [STOP, STOP]
    assert [found["stopped"] for found, _ in begun] == ["", ""]
    assert ended[0][0]["stopped"].startswith("all ")
    assert ended[1][0]["stopped"] == "the first process stopped"


def test_the_first_alone_validates_and_writes(calls):
    (begun, _), (other, _) = calls["begun"]
    assert begun["validated"] == [0, begun["total"] // 2]
    assert other["validated"] == []
    assert begun["wrote"] == ["best.safetensors", "curves.csv", "last.safetensors"]
    (ended, _), (idle, _) = calls["ended"]
    assert (len(ended["validated"]), idle["validated"]) == (1, [])


def test_patience_ends_it_for_all(calls):
    # Every validation is worse than the one before it.
    (first, _), (second, _) = calls["patience"]
    assert first["step"] == second["step"] == first["total"] // 4
    assert first["stopped"] == "1 validations were no better than step 0"
    assert second["stopped"] == "the first process stopped"


def test_of_a_whole_training_the_first_speaks_and_writes(corpus, calls):
    first, second = (json.loads((corpus[0] / f"job-{n}.json").read_text()) for n in range(2))
    assert [first["code"], second["code"]] == [0, 0], first["err"] + second["err"]
    head = calls["out"] / "job" / "head"
    assert first["out"] == f"{head}\n"
    assert "accept length" in first["err"]
    assert second["out"] == ""
    assert "accept length" not in second["err"]
    loop = json.loads((head / "training.json").read_text())["loop"]
    assert loop["processes"] == 2
    assert loop["steps"] == loop["of"]

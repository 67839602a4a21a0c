"""Two processes on one machine: what one process does with twice as many batches per step."""

import csv
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from specbench.errors import UsageError
from specbench.train.loop import ranks as module
from specbench.train.loop.ranks import Ranks, device_of, joined
from specbench.train.loop.settings import Hooks
from tests.train.loop.toy import Toy, training, write_corpus

ROOT = Path(__file__).parents[3]
STOP = 6


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def together(data, out):
    """Run two processes to their end; by call, what each found and its weights."""
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    command = [sys.executable, "-m", "tests.train.loop.together", str(data), str(out), str(STOP)]
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
def calls(corpus, tmp_path_factory):
    """What two processes did that train together; where they did so is under ``out``."""
    out = tmp_path_factory.mktemp("together")
    return {**together(corpus[0], out), "out": out}


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


def test_each_process_takes_a_device_of_its_own(monkeypatch):
    assert device_of("cuda:1") == "cuda:1"
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert device_of("cuda") == "cuda:1"
    assert device_of("cpu") == "cpu"
    with pytest.raises(UsageError, match="'cuda:0' with 2 processes"):
        device_of("cuda:0")


def test_joining_waits_for_days_and_uses_the_devices_backend(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    asked = []
    fake = type(
        "Distributed",
        (),
        {
            "init_process_group": staticmethod(lambda kind, timeout: asked.append((kind, timeout))),
            "get_rank": staticmethod(lambda: 1),
            "get_world_size": staticmethod(lambda: 2),
            "destroy_process_group": staticmethod(lambda: asked.append("left")),
        },
    )
    monkeypatch.setattr(module, "distributed", fake)
    monkeypatch.setattr(torch.cuda, "set_device", asked.append)
    for device, backend in (("cpu", "gloo"), ("cuda:1", "nccl")):
        asked.clear()
        with joined(torch.device(device)) as ranks:
            assert ranks == Ranks(1, 2, torch.device(device))
        kind, timeout = asked[-2]
        assert (kind, asked[-1]) == (backend, "left")
        assert timeout.days >= 7


def test_what_is_told_lies_on_the_device(monkeypatch):
    seen = []
    fake = type(
        "Distributed",
        (),
        {
            "broadcast": staticmethod(lambda tensor, source: seen.append(tensor.device.type)),
            "all_reduce": staticmethod(lambda tensor: seen.append(tensor.device.type)),
        },
    )
    monkeypatch.setattr(module, "distributed", fake)
    # Without a graphics card "meta" stands for one.
    ranks = Ranks(0, 2, torch.device("meta"))
    with pytest.raises(Exception, match="meta"):
        ranks.told(1)
    ranks.mean(torch.ones(2))
    assert seen == ["meta", "meta"]


def test_a_process_alone():
    assert Ranks().told(2) == 2
    assert Ranks().mean(torch.tensor([3.0])).tolist() == [3.0]
    with joined(torch.device("cpu")) as ranks:
        assert (ranks.first, ranks.size) == (True, 1)

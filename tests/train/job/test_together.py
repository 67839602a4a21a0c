"""`specbench train` as `torchrun` starts it: of two processes the first speaks and writes."""

import json
import os
import socket
import subprocess
import sys

import tomli_w

PROGRAM = "import torch; torch.set_num_threads(1); from specbench.cli.main import main; main()"


def started(path, out):
    """Exit codes of both processes, and what they said."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "train", str(path), "--out", str(out)],
            env={**os.environ, **where, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], said


def test_two_processes_make_one_head(bench, tmp_path):
    prompts = {"source": "suite", "name": "p", "suite": str(bench.root / "prompts.jsonl")}
    data = {"prompts": [prompts], "temperatures": [0.0], "max_new_tokens": 40, "held_out": 0.2}
    path = tmp_path / "recipe.toml"
    path.write_text(
        tomli_w.dumps(
            {
                "schema_version": 1,
                "name": "both",
                "method": "mtp",
                "target": {"model": str(bench.root / "target")},
                "data": data,
                "train": {"epochs": 4, "batch_tokens": 128, "validations": 1},
                "validate": {"suites": []},
            }
        )
    )
    codes, ((out, told), (silent, other)) = started(path, tmp_path / "out")
    assert codes == [0, 0], told + other
    head = tmp_path / "out" / "head"
    assert out == f"{head}\n"
    assert silent == ""
    assert "accept length" in told
    assert "accept length" not in other
    loop = json.loads((head / "training.json").read_text())["loop"]
    assert loop["processes"] == 2
    assert loop["steps"] == loop["of"]

"""One of two processes that train together: a toy, then a head; started by ``test_together``."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import torch

from specbench.cli.main import call
from specbench.train.capture.corpus import Corpus
from specbench.train.capture.record import read_record
from specbench.train.loop.ranks import joined
from specbench.train.loop.settings import Hooks
from tests.train.loop.toy import Toy, training, weights


def run(name: str, ranks, data: Path, out: Path, stop: int, **how) -> None:
    """One call; what it found and its weights are left in ``data``."""
    validated: list[int] = []
    reached: list[int] = []

    def validate(method):
        validated.append(len(method.numbers))
        return {"accept_length": -float(len(validated))}

    def over():
        # Clocks of processes differ: only the first one may be asked.
        assert ranks.first
        return reached[-1] >= stop

    corpus = Corpus(data, read_record(data), [])
    method = Toy()
    begun = training(out, corpus, method, ranks, **how)
    hooks = Hooks(validate, lambda step, total, figures: reached.append(step), over=over)
    standing = begun.run(hooks)
    # The last checkpoint is written when the first one says so.
    ranks.told(0)
    found = {
        "numbers": method.numbers,
        "validated": validated,
        "step": standing.step,
        "total": standing.total,
        "stopped": standing.stopped,
        "tokens": standing.tokens,
        "wrote": sorted(path.name for path in out.rglob("*") if path.is_file()),
        "rank": [ranks.rank, ranks.size],
    }
    (data / f"{name}-{ranks.rank}.json").write_text(json.dumps(found))
    torch.save(weights(method), data / f"{name}-{ranks.rank}.pt")


def main(data: Path, out: Path, stop: int, recipe: Path) -> None:
    torch.set_num_threads(1)
    with joined(torch.device("cpu")) as ranks:
        run("begun", ranks, data, out / "one", stop)
        run("ended", ranks, data, out / "one", 1000)
        run("patience", ranks, data, out / "two", 1000, patience=1, validations=4)
    # A group of its own: on the same port one process may still find the store of the first group.
    os.environ["MASTER_PORT"] = sys.argv[5]
    said = io.StringIO(), io.StringIO()
    with redirect_stdout(said[0]), redirect_stderr(said[1]):
        code = call(["train", str(recipe), "--out", str(out / "job")])
    found = {"code": code, "out": said[0].getvalue(), "err": said[1].getvalue()}
    (data / f"job-{ranks.rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))

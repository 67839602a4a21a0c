"""One of several processes that train a toy together; started by ``test_ranks``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch

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


def main(data: Path, out: Path, stop: int) -> None:
    torch.set_num_threads(1)
    with joined(torch.device("cpu")) as ranks:
        run("begun", ranks, data, out / "one", stop)
        run("ended", ranks, data, out / "one", 1000)
        run("patience", ranks, data, out / "two", 1000, patience=1, validations=4)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))

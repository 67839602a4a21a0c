"""What the norm layers of EAGLE heads do in training, for short and for long prompts.

EAGLE-1 left out the norms before its layer and behind it; EAGLE-3 heads exist with and without
norms over the hidden states that they read. Every variant sees the same answers in the same order,
as many tokens of short prompts as of long ones, and is judged by its drafter along held-out answers
of the same kind. Writes results/norms.json.

    .venv/bin/python scripts/norms.py --data train/data    (of scripts/train_zoo/run)
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from specbench.models.opened import OpenedTarget
from specbench.train.capture.corpus import Corpus
from specbench.train.capture.record import read_record
from specbench.train.data.asked import Answered
from specbench.train.job.levelled import levelled
from specbench.train.job.methods import Start, load_target, method_of, start_of
from specbench.train.job.optimising import optimising
from specbench.train.job.split import split
from specbench.train.job.stages import Inference
from specbench.train.job.validate import HeldOut, figures
from specbench.train.job.vocabulary import count_tokens, frequent_ids
from specbench.train.loop.order import batches_per_epoch
from specbench.train.loop.ranks import Ranks
from specbench.train.loop.run import Training
from specbench.train.loop.settings import Hooks
from specbench.train.recipe.methods import DRAFTERS
from specbench.train.recipe.schema import Recipe, recipe_of

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "results" / "norms.json"
K, VOCABULARY, HELD_OUT = 3, 8192, 0.1
SHORT, LONG = 48, 160
"""Tokens of a prompt: at most, and at least."""
EAGLE1 = {"optimiser": "adamw", "learning_rate": 1e-3}
EAGLE3 = {"optimiser": "muon", "learning_rate": 4e-3, "steps": K}
COMMON = {"batch_tokens": 512, "precision": "bfloat16", "loss_on": "answers", "clip_norm": 1.0}
VARIANTS: dict[str, tuple[str, Mapping[str, Any], Mapping[str, Any]]] = {
    "EAGLE-1 as published": ("eagle1", EAGLE1, {}),
    "EAGLE-1 + input norm": ("eagle1", EAGLE1, {"input_norm": True}),
    "EAGLE-1 + both norms": ("eagle1", EAGLE1, {"input_norm": True, "final_norm": True}),
    "EAGLE-3 as published": ("eagle3", EAGLE3, {}),
    "EAGLE-3 + one norm before fc": ("eagle3", EAGLE3, {"norm_before_fc": True}),
    "EAGLE-3 + a norm over each state": ("eagle3", EAGLE3, {"fc_norm": True}),
}
"""Name -> method, [train] and [head]."""
AT_THE_END = Hooks(lambda network: {"accept_length": 1.0})
"""Nothing is validated on the way."""


def recipe(method: str, train: Mapping[str, Any], head: Mapping[str, Any]) -> Recipe:
    """A recipe on the answers that are there already."""
    prompts = [{"source": "self", "name": "unused", "count": 1}]
    tables = {
        "schema_version": 1,
        "name": "norms",
        "method": method,
        "target": {"model": "smollm2-135m-instruct"},
        "data": {"prompts": prompts},
        "head": {"draft_vocabulary": VOCABULARY, **head},
        "train": {**COMMON, **train, "validations": 1},
        "validate": {"k": K},
    }
    return recipe_of(tables, "norms")


def answers_in(data: Path) -> list[Answered]:
    """What the target said, of a data folder."""
    lines = (data / "answers.jsonl").read_text("utf-8").splitlines()
    found = (Answered.of(json.loads(line)) for line in lines)
    return [one for one in found if len(one.answer) >= K + 2]


def of_length(answers: Sequence[Answered], tokens: int) -> Iterator[tuple[str, list[Answered]]]:
    """Answers to short prompts and to long ones, as many tokens of answers of both."""
    kinds = {
        f"short prompts (up to {SHORT} tokens)": [a for a in answers if len(a.prompt) <= SHORT],
        f"long prompts (from {LONG} tokens)": [a for a in answers if len(a.prompt) >= LONG],
    }
    for name, chosen in kinds.items():
        taken, said = list[Answered](), 0
        for one in sorted(chosen, key=lambda a: a.id[::-1]):
            if said < tokens:
                taken.append(one)
                said += len(one.answer)
        yield name, taken


class Study:
    """Trains variants on the captured states of a data folder.

    Args:
        data: a data folder whose answers were captured once, for an EAGLE-3 head.
    """

    def __init__(self, data: Path) -> None:
        (self._captures,) = (path.parent for path in data.glob("captures/*/capture.json"))
        record = read_record(self._captures)
        assert record is not None
        self._record = record
        asked = recipe("eagle3", {}, {})
        self._target, self._inference = load_target(asked), Inference(asked, lambda text: None)

    @property
    def captured(self) -> set[str]:
        """Ids of all answers whose states are on disk."""
        return {name for shard in self._record.shards for name in shard.answers}

    def trained(
        self, variant: str, answers: Sequence[Answered], held: Sequence[Answered], epochs: float
    ) -> dict[str, float]:
        """Figures of a head along held-out answers when its training is over."""
        method, train, head = VARIANTS[variant]
        asked = recipe(method, {**train, "epochs": epochs}, head)
        target = self._target
        rows = target.model.get_input_embeddings().num_embeddings
        ids = frequent_ids(count_tokens(answers), VOCABULARY, target.eos_ids, rows)
        start = start_of(asked, target, ids)
        corpus = Corpus(self._captures, self._record, start.taps)
        conversations = corpus.chosen({one.id for one in answers})
        assert start.head is not None
        start = Start(target, levelled(start.head, corpus, conversations))
        how = optimising(asked)
        network = method_of(asked, start, batches_per_epoch(conversations, how))
        judge = HeldOut(self._opened, held, DRAFTERS[method], K, asked.validate_.options)
        with tempfile.TemporaryDirectory() as work:
            folder = Path(work)
            files = folder / "checkpoints", folder / "curves.csv"
            Training(network, corpus, conversations, how, *files, Ranks()).run(AT_THE_END)
            return figures(judge.of(network, folder / "head"))

    def _opened(self, folder: Path) -> OpenedTarget:
        return self._inference.opened()


@click.command()
@click.option("--data", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--tokens", default=40_000, help="Tokens of answers that are trained on.")
@click.option("--epochs", default=3.0)
@click.option("--held", default=24, help="Held-out answers.")
def main(data: Path, tokens: int, epochs: float, held: int) -> None:
    """Train every variant on both kinds of prompts."""
    train, kept = split(answers_in(data), HELD_OUT, str(data))
    study, rows = Study(data), []
    captured = study.captured
    judged = dict(of_length(kept, 1_000_000))
    for kind, chosen in of_length([one for one in train if one.id in captured], tokens):
        for variant in VARIANTS:
            found = study.trained(variant, chosen, judged[kind][:held], epochs)
            rows.append({"prompts": kind, "head": variant, **found})
            click.echo(json.dumps(rows[-1]))
    settings = {"tokens": tokens, "epochs": epochs, "held": held, "k": K}
    OUT.write_text(json.dumps({"settings": settings, "rows": rows}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()

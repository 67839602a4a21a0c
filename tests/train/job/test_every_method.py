"""A tiny training of every method: what it learns and leaves, and that a run finds the same."""

import csv
import json
from dataclasses import dataclass

import pytest
import torch

from specbench.core.arm import ArmSpec
from specbench.core.request import Sampling
from specbench.decoding.shapes.parse import parse_shape
from specbench.engines.native import NativeEngine
from specbench.models.heads.configs import TargetShape
from specbench.models.heads.read import read_head
from specbench.models.load import load_model
from specbench.models.locate import locate
from specbench.models.weights import weight_hash
from specbench.train.data.asked import Answered
from specbench.train.data.records import read_records
from specbench.train.data.target_answers import request_of
from specbench.train.job.folder import JobFolder
from specbench.train.job.listeners import Outcome
from specbench.train.job.split import split
from specbench.train.recipe.methods import DRAFTERS, PARALLEL
from specbench.train.recipe.schema import Recipe
from tests.train.job.spelling import spelled
from tests.train.job.trained import Heard

pytestmark = pytest.mark.usefixtures("one_thread")
FAST = {"batch_tokens": 512, "learning_rate": 0.03, "epochs": 14}
LONGER = {**FAST, "epochs": 20}
TABLES = {
    "mtp": {"train": FAST, "head": {"draft_vocabulary": 200}},
    "eagle1": {"train": FAST},
    "eagle3": {"train": {**FAST, "steps": 3}},
    "medusa1": {"train": LONGER},
    "blockwise": {"train": LONGER},
    "medusa2": {"train": {**LONGER, "warm_epochs": 6}},
    # Neither of the two layers is the one that looks up the next letter.
    "distill": {"train": FAST, "head": {"layers": 2}},
}
LONGEST = {**dict.fromkeys(TABLES, 3), **dict.fromkeys(PARALLEL, 4)}


@dataclass
class Trained:
    """A finished training."""

    recipe: Recipe
    folder: JobFolder
    heard: Heard
    outcome: Outcome


@pytest.fixture(scope="module", params=list(TABLES))
def trained(request, bench, one_thread):
    recipe = bench.recipe(request.param, **TABLES[request.param])
    folder, heard = bench.folder(request.param), Heard()
    return Trained(recipe, folder, heard, bench.train(recipe, folder, heard))


def held(trained):
    """The greedy held-out answers, from the answers that training left on disk."""
    answers = [
        Answered.of(record) for record in read_records(trained.folder.data / "answers.jsonl")
    ]
    long = [one for one in answers if len(one.answer) >= 4]
    return [one for one in split(long, 0.2, "")[1] if one.temperature == 0]


def greedy_length(trained):
    """Tokens per step on them, by the engine that measures."""
    recipe, head = trained.recipe, str(trained.folder.head)
    tuned = recipe.method == "medusa2"
    model = head if tuned else recipe.target.model
    options = {**recipe.validate_.options, "model": head}
    k = LONGEST[recipe.method]
    drafting = ArmSpec("drafting", DRAFTERS[recipe.method], k, drafter_options=options)
    engine = NativeEngine({"model": model}, [drafting])
    requests = [
        request_of(one.id, one.prompt, Sampling(), 40, engine.stops(), 0) for one in held(trained)
    ]
    traces = {trace.key.item: trace for trace in engine.run("drafting", requests, 4)}
    for one in held(trained):
        assert tuple(traces[one.id].output_ids) == one.answer
    steps = sum(len(trace.steps) for trace in traces.values())
    return sum(len(trace.output_ids) - 1 for trace in traces.values()) / steps


def test_loss_falls_and_held_out_drafts_are_accepted(trained):
    assert trained.outcome.finished
    losses, lengths = trained.heard.losses, trained.heard.lengths
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])
    (first, untrained), (last, length) = lengths[0], lengths[-1]
    assert (first, last) == (0, trained.outcome.standing.total)
    assert untrained < 1.2
    assert length > 2.5
    assert trained.outcome.standing.best == max(value for _, value in lengths)


def test_a_run_accepts_what_the_validation_said(trained):
    # The curves have it by temperature, rounded to six digits.
    best = str(trained.outcome.standing.best_step)
    with trained.folder.curves.open(newline="") as stream:
        lengths = {r["step"]: r["accept_length_t0"] for r in csv.DictReader(stream)}
    said = float(lengths[best])
    assert greedy_length(trained) == pytest.approx(said, rel=1e-5)


def test_the_ordinary_reader_reads_it(trained):
    recipe, head = trained.recipe, trained.folder.head
    if recipe.method == "distill":
        loaded = load_model(locate(str(head)), dtype="auto")
        assert loaded.dtype == torch.bfloat16
        assert loaded.config.num_hidden_layers == 2
        return
    target = load_model(locate(recipe.target.model), dtype="float32")
    shape = TargetShape.of(target.config)
    found = read_head(
        locate(str(head), needs_tokenizer=False),
        families=(recipe.family,),
        target=shape,
        dtype="auto",
    )
    if recipe.method == "medusa2":
        # The target's own type, and its own weights: what is in the folder is another model.
        assert found.dtype == torch.float32
        assert found.made_for.weight_hash == weight_hash(head) != target.weight_hash
        return
    assert found.dtype == torch.bfloat16
    assert found.made_for.weight_hash == target.weight_hash
    if recipe.method == "mtp":
        ids = found.tensors["target_ids"].tolist()
        assert len(ids) == 200
        # Every letter that is said, and the end.
        assert {0, *spelled("h")} <= set(ids)


def test_the_record_and_the_card(trained):
    recipe, head = trained.recipe, trained.folder.head
    record = json.loads((head / "training.json").read_text())
    card = (head / "README.md").read_text()
    assert (record["recipe"], record["method"]) == ("spelling", recipe.method)
    loop = record["loop"]
    assert loop["steps"] == loop["of"] == trained.outcome.standing.total
    assert loop["held_out_accept_length"] == trained.outcome.standing.best
    assert loop["ended"].startswith("all ")
    sides = record["data"]["train"]["answers"] + record["data"]["held_out"]["answers"]
    assert sides + sum(record["data"]["left_out"].values()) == 60
    (suite,) = record["suites"].values()
    assert suite["accept_length"] > 1.5
    assert suite["k"] == LONGEST[recipe.method]
    assert suite["prompts"] > 0
    assert f"method `{recipe.method}`" in card
    assert f"drafter `{DRAFTERS[recipe.method]}`" in card
    assert f"| {suite['accept_length']:.2f} |" in card
    assert ("draft vocabulary: 200 tokens" in card) == (recipe.method == "mtp")
    assert ("tuned from" in card) == (recipe.method == "medusa2")
    assert record["target"]["weight_hash"] == (
        weight_hash(head)
        if recipe.method == "medusa2"
        else weight_hash(locate(recipe.target.model).path)
    )


def test_nothing_else_is_left(trained):
    names = {path.name for path in trained.folder.path.iterdir()}
    assert names == {
        "checkpoints",
        "curves.csv",
        "curves.png",
        "head",
        "lock",
        "recipe.json",
        "recipe.toml",
        "training.json",
    }
    assert not list(trained.folder.path.rglob("*.part"))
    # Whoever may read one of its files may read them all.
    modes = {path.stat().st_mode for path in trained.folder.path.rglob("*") if path.is_file()}
    assert len(modes) == 1


def test_accuracies_for_a_search_of_trees(trained):
    path = trained.folder.head / "accuracies.json"
    assert path.exists() == (trained.recipe.method in PARALLEL)
    if path.exists():
        rows = json.loads(path.read_text())["accuracies"]
        assert [len(row) for row in rows] == [10] * 4
        assert all(0 <= share <= 1 for row in rows for share in row)
        # The first candidate is right far more often than any other.
        assert all(row[0] > 0.5 and row[0] > 3 * max(row[1:]) for row in rows)
        shape = parse_shape(f"best_first:6:{path}", "arm a")
        assert shape.depth == 4


def test_the_same_command_again_has_nothing_to_do(trained, bench):
    heard = Heard()
    again = bench.train(trained.recipe, trained.folder, heard)
    assert again == trained.outcome
    assert (heard.notes, heard.stages, heard.losses) == ([], [], [])

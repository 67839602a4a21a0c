"""Killed, stopped and resumed at every stage; folders of other recipes; data that is shared."""

import itertools
import json
from contextlib import nullcontext

import pytest
import torch
from safetensors.torch import load_file

from specbench.errors import PrerequisiteError, SpecbenchError, UsageError
from specbench.train.capture import capture as capturing
from specbench.train.data.records import Records
from specbench.train.job import finish as finishing
from specbench.train.job import methods
from specbench.train.job import run as running
from specbench.train.job.heads import starting_head
from specbench.train.job.methods import load_target
from specbench.train.loop import checkpoint
from specbench.train.loop.checkpoint import BEST
from specbench.train.loop.curves import to_look_at
from specbench.train.loop.step import BrokenLossError, Stepper
from tests.train.data.answering import room_for
from tests.train.job.trained import Heard

pytestmark = pytest.mark.usefixtures("one_thread")
SHORT = {"epochs": 3, "validations": 1}


@pytest.fixture(scope="module")
def recipe(bench):
    return bench.recipe("mtp", train=SHORT)


@pytest.fixture(scope="module")
def whole(bench, recipe, one_thread):
    """The training in one go."""
    folder = bench.folder("whole", "data-whole")
    assert bench.train(recipe, folder).finished
    return folder


def same_head(folder, other):
    for name in ("model.safetensors", "config.json"):
        assert (folder.head / name).read_bytes() == (other.head / name).read_bytes()
    best, others = (checkpoint.read(one.checkpoints / BEST)[1] for one in (folder, other))
    assert all(torch.equal(best[name], others[name]) for name in best)
    assert folder.curves.read_text() == other.curves.read_text()


@pytest.fixture(autouse=True)
def no_picture(monkeypatch):
    """Pictures take longer than these trainings."""
    monkeypatch.setattr(running, "draw", lambda rows, path, title: None)


class Killed(BaseException):
    """What no handler expects."""


def dies(*_, **__):
    raise Killed


@pytest.mark.parametrize(
    "place",
    ["prompts", "answers", "captured", "training", "exported", "suites", "card"],
)
def test_killed_at_a_stage_and_resumed(bench, recipe, whole, monkeypatch, place):
    own = place in ("prompts", "answers", "captured")
    folder = bench.folder(f"killed-{place}", f"data-{place}" if own else "data-whole")
    heard = Heard()
    with monkeypatch.context() as patch:
        if place in ("prompts", "answers"):
            added = []

            def add(records, record):
                added.append(record)
                if len(added) == 20:
                    raise Killed
                plain(records, record)

            plain = Records.add
            patch.setattr(f"specbench.train.data.{place}.Records.add", add)
        elif place == "captured":
            patch.setattr(capturing.CaptureRecord, "write", dies)
        elif place == "training":

            def take(stepper, group, step, kept):
                if step == 7:
                    raise Killed
                return plain_step(stepper, group, step, kept)

            plain_step = Stepper.take
            patch.setattr(Stepper, "take", take)
        elif place == "exported":
            patch.setattr(finishing, "on_suites", dies)
        elif place == "suites":
            patch.setattr(finishing, "write_card", dies)
        else:
            patch.setattr("pathlib.Path.replace", dies)
        with pytest.raises(Killed):
            bench.train(recipe, folder, heard)
    assert not folder.head.exists()
    assert bench.train(recipe, folder).finished
    same_head(folder, whole)
    assert not list(folder.path.rglob("*.part"))
    assert not folder.scratch.exists()


def test_stopped_by_the_clock_again_and_again(bench, recipe, whole, monkeypatch):
    # Now and then time is up: behind an answer, a shard or a step, and the next call goes on there.
    asked = itertools.count(1)
    monkeypatch.setattr(capturing, "SHARD_TOKENS", 500)
    folder = bench.folder("clock", "data-clock")
    calls = 0
    while True:
        calls += 1
        outcome = bench.train(recipe, folder, Heard(over=lambda: next(asked) % 16 == 0))
        if outcome.finished:
            break
        assert not folder.head.exists()
        assert calls < 20
    # 60 answers and 18 steps: it was stopped many times, among answers and among steps.
    assert calls > 4
    same_head(folder, whole)


def test_another_recipe_in_the_folder_is_refused(bench, recipe, whole):
    before = whole.resolved.read_text()
    for table, says in (
        ({"train": {**SHORT, "epochs": 4}}, "with train.epochs = 3.0, the recipe has 4.0"),
        ({"train": {**SHORT, "learning_rate": 0.1}}, "train.learning_rate = 0.015"),
        ({"name": "other"}, 'name = "spelling", the recipe has "other"'),
        ({"head": {"draft_vocabulary": 99}}, "head.draft_vocabulary = null, the recipe has 99"),
        ({"data": {"temperatures": [0.0, 0.8]}}, "data.temperatures[1] = 0.7"),
    ):
        tables = {"train": SHORT, **table}
        with pytest.raises(UsageError, match="holds a training with") as refused:
            bench.train(bench.recipe("mtp", **tables), whole)
        assert says in refused.value.message
        assert "--out" in refused.value.hint
    assert whole.resolved.read_text() == before
    # What changes no weight may change.
    free = bench.recipe("mtp", title="Spelling", train={**SHORT, "patience": 3})
    assert bench.train(free, whole).finished


def test_recipes_share_a_data_folder(bench, whole, monkeypatch):
    data = {path.name: path.stat().st_mtime_ns for path in whole.data.glob("*.jsonl")}
    folder = bench.folder("shares", "data-whole")
    recipe = bench.recipe("medusa1", train=SHORT)
    assert bench.train(recipe, folder).finished
    for name, at in data.items():
        assert (whole.data / name).stat().st_mtime_ns == at
    # The same states serve both; only held-out answers of parallel heads were added.
    (captures,) = folder.captures.iterdir()
    # Those of other layers lie beside them.
    eagle = bench.recipe("eagle3", train={**SHORT, "steps": 1})
    assert bench.train(eagle, bench.folder("beside", "data-whole")).finished
    assert len(list(folder.captures.iterdir())) == 2
    assert captures.is_dir()
    # Another target, or other settings, may not add to it.
    other = bench.recipe("mtp", train=SHORT, data={"max_new_tokens": 39})
    with pytest.raises(UsageError, match="data made by"):
        bench.train(other, bench.folder("other", "data-whole"))


def test_two_calls_in_one_folder(bench, recipe, whole):
    folder = bench.folder("busy", "data-whole")
    with folder.alone(), pytest.raises(UsageError, match="by another process"):
        bench.train(recipe, folder)


def test_a_broken_loss_stops_and_goes_on_with_a_lower_rate(bench, recipe, monkeypatch):
    folder = bench.folder("broken", "data-whole")
    plain = methods.FeatureTraining.loss

    def broken(self, batch, step):
        found = plain(self, batch, step)
        return type(found)(found.loss * float("nan"), found.depths, found.rows)

    heard, drawn = Heard(), []
    with monkeypatch.context() as patch:
        patch.setattr(methods.FeatureTraining, "loss", broken)
        patch.setattr(running, "draw", lambda rows, path, title: drawn.append((rows, path)))
        with pytest.raises(BrokenLossError, match="step 1: the loss is nan") as refused:
            bench.train(recipe, folder, heard)
    # How far it came is drawn; here nothing makes a picture, and the table is named.
    ((rows, path),) = drawn
    assert ([row["step"] for row in rows], path) == ([0], folder.picture)
    assert heard.notes[-1] == f"curves: {folder.curves}"
    assert "lower train.learning_rate" in refused.value.hint
    assert folder.noted()["failed"]["step"] == 1
    # Not every key may change.
    with pytest.raises(UsageError, match=r"train\.epochs"):
        bench.train(bench.recipe("mtp", train={**SHORT, "epochs": 9}), folder)
    lower = bench.recipe("mtp", train={**SHORT, "learning_rate": 0.01, "clip_norm": 0.2})
    assert bench.train(lower, folder).finished
    record = json.loads((folder.head / "training.json").read_text())
    assert "failed" not in record
    changes = {one["key"]: (one["from"], one["to"]) for one in record["changes"]}
    assert changes == {"train.learning_rate": (0.015, 0.01), "train.clip_norm": (0.5, 0.2)}
    assert all(one["behind"]["step"] == 1 for one in record["changes"])
    card = (folder.head / "README.md").read_text()
    assert "changed behind step 1, whose loss was no number: train.learning_rate from 0.015" in card
    # Behind it, the rate is fixed again.
    with pytest.raises(UsageError, match=r"train\.learning_rate"):
        bench.train(recipe, folder)


def test_a_full_disk_anywhere_is_said_and_mended_by_room(bench, recipe, whole):
    folder, said = bench.folder("full", "data-full"), []

    def outcome(room):
        try:
            with room_for(room):
                return bench.train(recipe, folder)
        except SpecbenchError as error:
            said.append(f"{error.message} | {error.hint}")
            return None

    room = 1024
    while outcome(room) is None:
        room *= 2
    # Each was too large once: the recipe, a network to be looked at, a shard.
    for file in ("recipe.json", "validating", "captures"):
        assert any(file in line for line in said), (file, said)
    assert all("could not be written" in line and "make room" in line for line in said)
    same_head(folder, whole)


def test_without_matplotlib_there_is_no_picture(bench, recipe, whole, monkeypatch):
    folder, heard = bench.folder("plain", "data-whole"), Heard()

    def missing(*_):
        raise PrerequisiteError("curves.png needs matplotlib", "type: pip install ...")

    monkeypatch.setattr(running, "draw", missing)
    assert bench.train(recipe, folder, heard).finished
    assert any("curves.png needs matplotlib" in note for note in heard.notes)
    assert to_look_at(folder.picture, folder.curves) == folder.curves
    same_head(folder, whole)


def test_the_best_weights_are_exported(bench, recipe, whole, monkeypatch):
    values = iter([3.0, 2.0])
    monkeypatch.setattr(running, "figures", lambda found: {"accept_length": next(values)})
    folder = bench.folder("best", "data-whole")
    standing = bench.train(recipe, folder).standing
    assert (standing.best_step, standing.step) == (0, 18)
    start = starting_head(recipe, load_target(recipe), None)
    for name, tensor in load_file(folder.head / "model.safetensors").items():
        if name.endswith("eh_proj.weight"):
            assert torch.equal(tensor, start.tensors["eh_proj.weight"].to(torch.bfloat16))
            break
    else:
        raise AssertionError("no such tensor")


class Told:
    """The first of two processes, or the second one, which hears what the first says."""

    size = 2

    def __init__(self, first, hears=None):
        self.first, self.rank, self.hears = first, int(not first), hears
        self.said = []

    def told(self, value):
        self.said.append(value)
        return value if self.first else self.hears

    @classmethod
    def joining(cls, monkeypatch, *arguments):
        made = cls(*arguments)
        monkeypatch.setattr(running, "joined", lambda device: nullcontext(made))
        return made


def test_where_the_first_cannot_begin_the_others_leave(bench, recipe, whole, monkeypatch):
    first = Told.joining(monkeypatch, True)
    with pytest.raises(UsageError):
        bench.train(bench.recipe("mtp", validate={"suites": ["none"]}), bench.folder("x"))
    assert first.said == [running.LEAVE]
    # Time that is up among the data, and a head that is there already.
    outcome = bench.train(recipe, bench.folder("y", "data-y"), Heard(over=lambda: True))
    assert (outcome.finished, first.said) == (False, [running.LEAVE] * 2)
    assert bench.train(recipe, whole).finished
    assert first.said == [running.LEAVE] * 3


def test_the_others_leave_at_once(bench, recipe, monkeypatch):
    Told.joining(monkeypatch, False, running.LEAVE)
    folder, heard = bench.folder("z"), Heard()
    assert bench.train(recipe, folder, heard) is None
    assert not folder.path.exists()
    assert (heard.stages, heard.notes) == ([], [])

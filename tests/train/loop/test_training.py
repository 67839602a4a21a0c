"""The loop: exact resume, validations, early stop, broken losses, full disks."""

import csv
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from specbench.errors import PrerequisiteError, SpecbenchError, UsageError
from specbench.train.loop import checkpoint
from specbench.train.loop.checkpoint import BEST, LAST
from specbench.train.loop.ranks import Ranks
from specbench.train.loop.run import Training
from specbench.train.loop.settings import Hooks, Optimising
from specbench.train.loop.step import BrokenLossError
from tests.train.data.answering import room_for
from tests.train.loop.toy import Toy, training, weights, write_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def length(method):
    """Something that depends on the weights alone."""
    return {"accept_length": 5 - float(method.module.weight.detach().square().sum())}


def stopping(step):
    """Hooks of a call whose time is up behind a step."""
    reached = []

    def moved(at, total, figures):
        reached.append(at)

    return Hooks(length, moved, over=lambda: bool(reached) and reached[-1] >= step)


def killed(step):
    """Hooks of a call that dies in a step."""

    def moved(at, total, figures):
        if at == step:
            raise KeyboardInterrupt

    return Hooks(length, moved)


def whole(folder, corpus, **how):
    """A training in one go: its method and standing."""
    method = Toy()
    standing = training(folder, corpus, method, **how).run(Hooks(length))
    return method, standing


def rows(folder):
    with (folder / "curves.csv").open(newline="") as stream:
        return list(csv.DictReader(stream))


def same(one, other):
    return all(torch.equal(one[name], other[name]) for name in one) and one.keys() == other.keys()


def equal_trainings(first, second, one, other):
    """Bit for bit the same weights, curves and optimiser; standings but for the clock."""
    assert same(weights(one), weights(other))
    assert (first / "curves.csv").read_bytes() == (second / "curves.csv").read_bytes()
    for name in (LAST, BEST):
        (old, tensors), (new, others) = (
            checkpoint.read(folder / "checkpoints" / name) for folder in (first, second)
        )
        assert same(tensors, others)
        assert replace(old, seconds=0) == replace(new, seconds=0)


GROUPS = {"accumulate": 2, "validations": 3, "epochs": 8.0}
MUON = {"optimiser": "muon"}


@pytest.mark.parametrize("how", [{}, GROUPS, MUON], ids=["plain", "groups", "muon"])
@pytest.mark.parametrize("stops", [(1,), (4,), (3, 7, 8)])
def test_stopped_and_resumed_is_the_same_training(corpus, tmp_path, how, stops):
    method, standing = whole(tmp_path / "one", corpus, **how)
    assert standing.step == standing.total > 8
    for stop in stops:
        again = Toy()
        part = training(tmp_path / "two", corpus, again, **how).run(stopping(stop))
        assert (part.step, part.stopped) == (stop, "")
    again = Toy()
    rest = training(tmp_path / "two", corpus, again, **how).run(Hooks(length))
    assert rest.stopped == f"all {rest.total} steps are done"
    equal_trainings(tmp_path / "one", tmp_path / "two", method, again)


@pytest.mark.parametrize("dies", [2, 7, 12])
def test_killed_between_checkpoints_goes_back_and_ends_the_same(corpus, tmp_path, dies):
    method, _ = whole(tmp_path / "one", corpus, validations=3)
    marks = [int(row["step"]) for row in rows(tmp_path / "one") if row["accept_length"]]
    with pytest.raises(KeyboardInterrupt):
        training(tmp_path / "two", corpus, Toy(), validations=3).run(killed(dies))
    again = Toy()
    resumed = training(tmp_path / "two", corpus, again, validations=3)
    # Behind the last validation before it.
    assert resumed.standing.step == max(mark for mark in marks if mark < dies)
    resumed.run(Hooks(length))
    equal_trainings(tmp_path / "one", tmp_path / "two", method, again)


def test_killed_between_curves_and_checkpoint(corpus, tmp_path, monkeypatch):
    method, _ = whole(tmp_path / "one", corpus)
    dying = training(tmp_path / "two", corpus, Toy(), save_seconds=0.0)
    plain = checkpoint.save

    def torn(folder, standing, *rest):
        if standing.step == 6:
            raise KeyboardInterrupt
        plain(folder, standing, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", torn)
        patch.setattr("specbench.train.loop.run.SAVE_SHARE", float("inf"))
        with pytest.raises(KeyboardInterrupt):
            dying.run(Hooks(length))
    again = Toy()
    resumed = training(tmp_path / "two", corpus, again)
    assert resumed.standing.step == 5
    resumed.run(Hooks(length))
    equal_trainings(tmp_path / "one", tmp_path / "two", method, again)


def test_every_call_takes_a_step(corpus, tmp_path):
    for step in (1, 2, 3):
        assert training(tmp_path, corpus, Toy()).run(Hooks(length, over=lambda: True)).step == step


def test_validations_are_evenly_spaced(corpus, tmp_path):
    steps, heard = [], []
    run = training(tmp_path, corpus, Toy(), validations=4)
    hooks = Hooks(
        lambda method: {"accept_length": float(run.standing.step)},
        validated=lambda step, figures: (steps.append(step), heard.append(figures)),
    )
    standing = run.run(hooks)
    total = standing.total
    assert steps == [0, *(round(total * share / 4) for share in (1, 2, 3)), total]
    assert heard[-1] == {"accept_length": float(total)}
    assert (standing.best, standing.best_step) == (total, total)
    found = rows(tmp_path)
    assert [int(row["step"]) for row in found if row["accept_length"]] == steps
    logged = [int(row["step"]) for row in found if row["loss"]]
    assert logged == [step for step in range(1, total + 1) if step % 10 == 0 or step == total]
    # A row is the mean of the steps behind the one before: alpha_1 is the step / 100 there.
    alphas = [float(row["alpha_1"]) for row in found if row["loss"]]
    assert alphas[0] == pytest.approx(sum(range(10)) / 10 / 100)


def test_the_best_weights_are_kept(corpus, tmp_path):
    values = iter([1.0, 3.0, 2.0])
    kept = []

    def validate(method):
        kept.append(weights(method))
        return {"accept_length": next(values)}

    method = Toy()
    run = training(tmp_path, corpus, method)
    standing = run.run(Hooks(validate))
    assert (standing.best, standing.since_best) == (3.0, 1)
    assert standing.best_step == round(standing.total / 2)
    assert same(weights(method), kept[2])
    run.load_best()
    assert same(weights(method), kept[1])


def test_patience(corpus, tmp_path):
    values = iter([2.0, 1.0, 2.5, 2.5, 2.0, 9.0])
    run = training(tmp_path, corpus, Toy(), validations=6, patience=2)
    standing = run.run(Hooks(lambda method: {"accept_length": next(values)}))
    at = [round(standing.total * n / 6) for n in range(7)]
    assert (standing.step, standing.best, standing.best_step) == (at[4], 2.5, at[2])
    assert standing.stopped == f"2 validations were no better than step {at[2]}"
    # It stays over.
    again = training(tmp_path, corpus, Toy(), validations=6, patience=2)
    assert again.run(Hooks(lambda method: 1 / 0)) == standing


@pytest.mark.parametrize("how", [{}, {"save_seconds": 0.0}])
def test_a_broken_loss_keeps_the_last_checkpoint(corpus, tmp_path, how, monkeypatch):
    monkeypatch.setattr("specbench.train.loop.run.SAVE_SHARE", float("inf"))
    method = Toy()
    method.broken = {6}
    saved = 6 if how else 0
    with pytest.raises(BrokenLossError, match="step 7") as refused:
        training(tmp_path, corpus, method, **how).run(Hooks(length))
    assert f"goes on from step {saved}" in refused.value.hint
    standing, tensors = checkpoint.read(tmp_path / "checkpoints" / LAST)
    assert standing.step == saved
    assert all(bool(tensor.isfinite().all()) for tensor in tensors.values())
    # With a lower rate and nothing broken, it goes on from there.
    again = Toy()
    resumed = training(tmp_path, corpus, again, learning_rate=0.01)
    assert resumed.standing.step == saved
    assert resumed.run(Hooks(length)).stopped.startswith("all ")
    assert again.numbers[0] == saved


def test_curves_show_the_steps_before_a_broken_one(corpus, tmp_path):
    method = Toy()
    method.broken = {6}
    broken = training(tmp_path / "two", corpus, method)
    with pytest.raises(BrokenLossError):
        broken.run(Hooks(length))
    # Batches 0 to 5 said a hundredth of their number; the checkpoint is that of step 0.
    last = rows(tmp_path / "two")[-1]
    assert (last["step"], float(last["alpha_1"])) == ("6", pytest.approx(sum(range(6)) / 6 / 100))
    assert broken.curves.rows[-1]["step"] == 6
    # They are not there twice when it goes on.
    again = Toy()
    training(tmp_path / "two", corpus, again).run(Hooks(length))
    other, _ = whole(tmp_path / "one", corpus)
    equal_trainings(tmp_path / "one", tmp_path / "two", other, again)


def test_a_checkpoint_just_before_a_broken_step(corpus, tmp_path):
    training(tmp_path / "two", corpus, Toy()).run(stopping(4))
    method = Toy()
    method.broken = {4}
    broken = training(tmp_path / "two", corpus, method)
    with pytest.raises(BrokenLossError):
        broken.run(Hooks(length))
    # Steps 1 to 4 are drawn, and on disk they wait for the row of step 10.
    assert broken.curves.rows[-1]["alpha_1"] == pytest.approx(sum(range(4)) / 4 / 100)
    again = Toy()
    training(tmp_path / "two", corpus, again).run(Hooks(length))
    other, _ = whole(tmp_path / "one", corpus)
    equal_trainings(tmp_path / "one", tmp_path / "two", other, again)


def test_a_full_disk_does_not_hide_a_broken_loss(corpus, tmp_path):
    training(tmp_path, corpus, Toy()).run(stopping(2))
    curves = (tmp_path / "curves.csv").read_bytes()
    method = Toy()
    method.broken = {3}
    with room_for(8), pytest.raises(BrokenLossError, match="step 4"):
        training(tmp_path, corpus, method).run(Hooks(length))
    assert (tmp_path / "curves.csv").read_bytes() == curves


def test_a_full_disk_keeps_the_last_checkpoint(corpus, tmp_path):
    training(tmp_path, corpus, Toy()).run(stopping(3))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.safetensors")}
    curves = (tmp_path / "curves.csv").read_bytes()
    with (
        room_for(64),
        pytest.raises(SpecbenchError, match="could not be written") as refused,
    ):
        training(tmp_path, corpus, Toy()).run(stopping(5))
    assert "it goes on from the last checkpoint" in str(refused.value)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.safetensors")} == before
    assert (tmp_path / "curves.csv").read_bytes() == curves
    assert not list(tmp_path.rglob("*.part"))
    assert training(tmp_path, corpus, Toy()).run(stopping(5)).step == 5


def test_another_number_of_processes_or_steps_is_refused(corpus, tmp_path):
    training(tmp_path, corpus, Toy()).run(stopping(2))
    with pytest.raises(UsageError, match="of a training of 1 processes, and now there are 2"):
        training(tmp_path, corpus, Toy(), Ranks(0, 2))
    with pytest.raises(UsageError, match="steps, and now there are"):
        training(tmp_path, corpus, Toy(), epochs=9.0)


@pytest.mark.parametrize(
    ("change", "now"),
    [
        (lambda held: [*held, replace(held[0], name="suite-new/0")], 13),
        (lambda held: held[1:], 11),
        (lambda held: [replace(held[0], name="other/0"), *held[1:]], 12),
    ],
    ids=["more", "fewer", "others"],
)
def test_other_conversations_are_refused(corpus, tmp_path, change, now):
    training(tmp_path, corpus, Toy()).run(stopping(2))
    other = SimpleNamespace(conversations=change(corpus.conversations), load=corpus.load)
    with pytest.raises(
        UsageError, match=f"training on other conversations: 12 then, {now} now"
    ) as refused:
        training(tmp_path, other, Toy())
    assert "another folder with --out; the data can be shared with --data" in refused.value.hint
    # Found in another order they are the same.
    turned = SimpleNamespace(conversations=corpus.conversations[::-1], load=corpus.load)
    assert training(tmp_path, turned, Toy()).standing.step == 2


def test_processes_that_see_other_folders_do_not_wait_for_each_other(corpus, tmp_path):
    class Second(Ranks):
        def told(self, value):
            return 5

    with pytest.raises(PrerequisiteError, match="process 1 finds another checkpoint"):
        training(tmp_path, corpus, Toy(), Second(1, 2))


def test_a_file_that_is_no_checkpoint(corpus, tmp_path):
    training(tmp_path, corpus, Toy()).run(stopping(2))
    last = tmp_path / "checkpoints" / LAST
    last.write_bytes(last.read_bytes()[:40])
    with pytest.raises(PrerequisiteError, match="is not a checkpoint of this training"):
        training(tmp_path, corpus, Toy())
    last.unlink()
    (tmp_path / "curves.csv").write_text("a,b\n1,2\n")
    with pytest.raises(PrerequisiteError, match="holds no curves of a training"):
        training(tmp_path, corpus, Toy())


def test_nothing_to_train_on(corpus, tmp_path):
    with pytest.raises(UsageError, match="no conversations to train on"):
        Training(Toy(), corpus, [], Optimising(1, 40), tmp_path, tmp_path / "curves.csv", Ranks())

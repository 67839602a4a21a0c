"""`specbench train` from a recipe to a head: streams, exit codes, and going on."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import tomli_w

from specbench.cli.main import call
from specbench.cli.training_progress import TrainingProgress
from specbench.errors import PrerequisiteError
from tests.train.job.trained import Bench

pytestmark = pytest.mark.usefixtures("one_thread")
ONE_EPOCH = {"epochs": 1, "validations": 1}


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield Bench.build(tmp_path_factory.mktemp("bench"))


@pytest.fixture
def recipe(bench, tmp_path):
    """Writes a recipe file; keys of tables are added to a small one."""

    def write(**tables):
        tables.setdefault("train", {"epochs": 2, "validations": 1})
        document = bench.recipe("mtp", **tables).model_dump(mode="json", by_alias=True)
        given = {name: document[name] for name in ("schema_version", "name", "method", "title")}
        given["target"] = {"model": document["target"]["model"]}
        given["data"] = {k: v for k, v in document["data"].items() if k != "prompts"}
        given["data"]["prompts"] = [
            {k: v for k, v in source.items() if v is not None}
            for source in document["data"]["prompts"]
        ]
        given["train"] = {
            k: document["train"][k] for k in ("epochs", "learning_rate", "batch_tokens")
        } | {"validations": document["train"]["validations"]}
        given["validate"] = {"suites": document["validate"]["suites"]}
        path = tmp_path / "recipe.toml"
        path.write_text(tomli_w.dumps(given))
        return path

    return write


def test_a_head_and_nothing_else_on_stdout(bench, recipe, tmp_path, capsys):
    out, data = tmp_path / "out", bench.root / "shared"
    path = recipe()
    assert call(["train", str(path), "--out", str(out), "--data", str(data)]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"{out / 'head'}\n"
    assert (out / "head" / "config.json").is_file()
    assert (data / "answers.jsonl").is_file()
    assert not (out / "data").exists()
    assert (out / "recipe.toml").read_text() == path.read_text()
    assert "step 0: accept length 1.00 (T=0: 1.00, T=0.7: 1.00)" in shown.err
    assert "all 12 steps are done, best accept length" in shown.err
    assert f"curves: {out / 'curves.png'}" in shown.err
    # Nothing is left to do.
    assert call(["train", str(path), "--out", str(out), "--data", str(data)]) == 0
    again = capsys.readouterr()
    assert again.out == shown.out
    assert "loading" not in again.err


def test_time_is_up_and_the_same_command_goes_on(bench, recipe, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["train", str(recipe(train=ONE_EPOCH)), "--data", str(bench.root / "shared")]
    # A moment: among the data, behind the first step, then as long as it takes.
    for minutes in ("0.00001", "0.00001", "9"):
        assert call([*arguments, "--max-minutes", minutes]) == 0
        shown = capsys.readouterr()
        assert (minutes == "9") == bool(shown.out)
        assert (minutes == "9") != ("the same command goes on (train/spelling)" in shown.err)
        assert (minutes == "9") != ("stopped at " in shown.err)
    assert shown.out == "train/spelling/head\n"
    record = json.loads((tmp_path / "train/spelling/training.json").read_text())
    assert record["loop"]["steps"] == 6


def test_stopped_among_the_data_says_at_which_stage(recipe, tmp_path, capsys):
    arguments = ["train", str(recipe()), "--out", str(tmp_path / "out"), "--max-minutes"]
    assert call([*arguments, "0.00001"]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert (
        f"stopped at answers, 1 of 60; the same command goes on ({tmp_path / 'out'})" in shown.err
    )


def test_the_last_line_names_no_picture_that_is_not_there(
    bench, recipe, tmp_path, capsys, monkeypatch
):
    def missing(*_):
        raise PrerequisiteError("curves.png needs matplotlib", "type: pip install ...")

    monkeypatch.setattr("specbench.train.job.run.draw", missing)
    out = tmp_path / "out"
    arguments = ["--out", str(out), "--data", str(bench.root / "shared")]
    assert call(["train", str(recipe(train=ONE_EPOCH)), *arguments]) == 0
    shown = capsys.readouterr()
    assert f"curves: {out / 'curves.csv'}\n" in shown.err
    assert (out / "curves.csv").is_file()
    # A head whose checkpoints were removed is finished all the same.
    for file in (out / "checkpoints").iterdir():
        file.unlink()
    assert call(["train", str(recipe(train=ONE_EPOCH)), *arguments]) == 0
    assert capsys.readouterr().err.startswith("nothing is left to do, best accept length ")


def test_wrong_recipes_exit_2_and_name_file_key_and_value(recipe, tmp_path, capsys):
    assert call(["train", str(tmp_path / "none.toml")]) == 2
    assert "no recipe" in capsys.readouterr().err
    path = recipe()
    path.write_text(path.read_text().replace("epochs = 2.0", "epochs = -2.0"))
    assert call(["train", str(path)]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"error: {path}: train.epochs = -2.0: Input should be greater than 0" in shown.err
    assert call(["train", str(recipe()), "--max-minutes", "0"]) == 2


def test_what_is_missing_exits_3(bench, recipe, tmp_path, capsys):
    path = recipe()
    broken = tmp_path / "target"
    broken.mkdir()
    (broken / "config.json").write_text("{}")
    text = path.read_text().replace(str(bench.root / "target"), str(broken))
    path.write_text(text)
    assert call(["train", str(path), "--out", str(tmp_path / "out")]) == 3
    shown = capsys.readouterr()
    assert (shown.out, "error: " in shown.err) == ("", True)


def test_a_broken_loss_exits_1_and_says_how_to_go_on(bench, recipe, tmp_path, capsys, monkeypatch):
    from specbench.train.methods.features import FeatureTraining

    plain = FeatureTraining.loss

    def broken(self, batch, step):
        found = plain(self, batch, step)
        return type(found)(found.loss * float("nan"), found.depths, found.rows)

    arguments = ["--out", str(tmp_path / "out"), "--data", str(bench.root / "shared")]
    with monkeypatch.context() as patch:
        patch.setattr(FeatureTraining, "loss", broken)
        assert call(["train", str(recipe()), *arguments]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "error: step 1: the loss is nan" in shown.err
    assert "lower train.learning_rate or train.clip_norm" in shown.err
    assert f"curves: {tmp_path / 'out' / 'curves.png'}" in shown.err
    assert (tmp_path / "out" / "curves.png").is_file()
    lower = recipe(train={"epochs": 2, "validations": 1, "learning_rate": 0.01})
    assert call(["train", str(lower), *arguments]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'out' / 'head'}\n"


@pytest.mark.parametrize(
    "program",
    [
        "from specbench.cli.main import call; call(['train', '--help'])",
        "from specbench.cli.main import call; call(['train', 'none.toml'])",
        "import specbench.train.recipe.schema",
    ],
)
def test_help_and_wrong_recipes_need_no_torch(program):
    code = f"import sys\n{program}\nsys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_progress_where_there_is_no_terminal(capsys, monkeypatch):
    clock = iter(range(0, 10_000, 20))
    monkeypatch.setattr("specbench.cli.training_progress.time.monotonic", lambda: next(clock))
    with TrainingProgress() as progress:
        for done in range(5):
            progress.stage("answers", done, 8)
        progress.moved(3, 10, {"loss": 0.5, "alpha_1": 0.25})
        progress.validated(3, {"accept_length": 1.5, "accept_length_t0": 2.0})
    lines = capsys.readouterr().err.splitlines()
    # The first at once, then every thirty seconds: one line in two, twenty seconds apart.
    assert lines[0] == "answers: 0 of 8"
    # 20 seconds each: 6 left behind 2, 4 behind 4.
    assert lines[1] == "answers: 2 of 8, about 2 min left"
    assert lines[2] == "answers: 4 of 8, about 80 s left"
    assert lines[3] == "training: 3 of 10; loss 0.500, accepted 25%"
    assert lines[4] == "step 3: accept length 1.50 (T=0: 2.00)"
    assert len(lines) == 5

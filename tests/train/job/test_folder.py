"""The folder of a training: whose it is, what is noted in it, and that one call writes it."""

import json

import pytest

from specbench.errors import PrerequisiteError, SpecbenchError, UsageError
from specbench.train.job.folder import JobFolder
from specbench.train.recipe.schema import recipe_of
from tests.train.data.answering import room_for


def recipe(**tables):
    given = {
        "schema_version": 1,
        "name": "a",
        "method": "mtp",
        "target": {"model": "m"},
        "data": {"prompts": [{"source": "library", "name": "lib", "count": 4}]},
    }
    return recipe_of({**given, **tables}, "r.toml")


@pytest.fixture
def folder(tmp_path):
    made = JobFolder(tmp_path / "job", tmp_path / "data")
    with made.alone():
        made.begin("text", recipe())
    return made


def test_the_recipe_is_kept_as_it_was_passed_and_with_all_its_keys(folder):
    assert folder.recipe.read_text() == "text"
    kept = json.loads(folder.resolved.read_text())
    assert kept["train"]["decay"] == 0.6
    assert kept["validate"]["limit"] == 6
    folder.begin("other words, the same keys", recipe())
    assert folder.recipe.read_text() == "other words, the same keys"


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"train": {"seed": 3}}, "train.seed = 0, the recipe has 3"),
        ({"method": "eagle3"}, 'method = "mtp", the recipe has "eagle3"'),
        (
            {"data": {"prompts": [{"source": "library", "name": "lib", "count": 5}]}},
            "data.prompts[0].count = 4, the recipe has 5",
        ),
        ({"head": {"draft_vocabulary": 7}}, "head.draft_vocabulary = null, the recipe has 7"),
    ],
)
def test_the_first_key_that_differs_is_named(folder, tables, says):
    with pytest.raises(UsageError, match="holds a training with") as refused:
        folder.begin("new", recipe(**tables))
    assert says in refused.value.message
    assert folder.recipe.read_text() == "text"


def test_keys_that_change_no_weight_may_change(folder):
    folder.begin("text", recipe(title="Other", train={"patience": 1, "validations": 9}))
    assert json.loads(folder.resolved.read_text())["train"]["validations"] == 9
    assert folder.noted() == {}


def test_rates_may_change_behind_a_failure_alone(folder):
    lower = recipe(train={"learning_rate": 5e-4})
    with pytest.raises(UsageError, match=r"train\.learning_rate = 0\.001"):
        folder.begin("text", lower)
    folder.note(failed={"step": 7, "why": "nan"})
    folder.begin("text", lower)
    folder.begin("text", recipe(train={"learning_rate": 5e-4, "clip_value": 1.0}))
    found = [(one["behind"]["step"], one["key"], one["to"]) for one in folder.noted()["changes"]]
    assert found == [(7, "train.learning_rate", 5e-4), (7, "train.clip_value", 1.0)]
    folder.note(failed=None)
    assert "failed" not in folder.noted()
    with pytest.raises(UsageError, match=r"train\.clip_value"):
        folder.begin("text", lower)


def test_facts_are_added_and_replaced(folder):
    folder.note(a=1, b={"c": None})
    folder.note(a=2)
    assert folder.noted() == {"a": 2, "b": {"c": None}}
    with room_for(16), pytest.raises(SpecbenchError, match=r"training\.json could not be written"):
        folder.note(b="long" * 40)
    assert folder.noted() == {"a": 2, "b": {"c": None}}


def test_one_call_at_a_time(folder):
    with (
        folder.alone(),
        pytest.raises(UsageError, match="being trained in by another process"),
        folder.alone(),
    ):
        pass
    with folder.alone():
        pass


def test_folders_that_cannot_be_written_or_read(tmp_path):
    (tmp_path / "file").write_text("")
    blocked = JobFolder(tmp_path / "file", tmp_path / "data")
    with pytest.raises(UsageError, match="cannot write") as refused, blocked.alone():
        pass
    assert "--out" in refused.value.hint
    folder = JobFolder(tmp_path / "job", tmp_path / "data")
    folder.path.mkdir()
    for text in ("{", "[]"):
        folder.record.write_text(text)
        with pytest.raises(PrerequisiteError, match="is no"):
            folder.noted()

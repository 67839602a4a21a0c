"""The folder of a training: whose it is, what is noted in it, and that one call writes it."""

import json

import pytest

from specbench.errors import PrerequisiteError, SpecbenchError, UsageError
from specbench.train.job.folder import JobFolder
from specbench.train.loop.checkpoint import LAST
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


def library(*names, count=4):
    return {"prompts": [{"source": "library", "name": name, "count": count} for name in names]}


@pytest.fixture
def fresh(tmp_path):
    """The folder of a training that has no checkpoint."""
    made = JobFolder(tmp_path / "job", tmp_path / "data")
    with made.alone():
        made.begin("text", recipe())
    return made


@pytest.fixture
def folder(fresh):
    """The folder of a training that has one."""
    fresh.checkpoints.mkdir()
    (fresh.checkpoints / LAST).touch()
    return fresh


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
        ({"data": library("lib", count=5)}, "data.prompts.lib.count = 4, the recipe has 5"),
        (
            {"data": library("lib", "more")},
            'data.prompts.more = null, the recipe has {"source": "library", "name": "more", '
            '"count": 4, "kind": "code"}',
        ),
        ({"data": library("other")}, "data.prompts.other = null, the recipe has "),
        (
            {"data": {**library("lib"), "exclude": ["mine"]}},
            'data.exclude[0] = null, the recipe has "mine"',
        ),
        ({"head": {"draft_vocabulary": 7}}, "head.draft_vocabulary = null, the recipe has 7"),
    ],
)
def test_the_first_key_that_differs_is_named(folder, tables, says):
    with pytest.raises(UsageError, match="holds a training with") as refused:
        folder.begin("new", recipe(**tables))
    assert says in refused.value.message
    # What has cost hours is shared and never removed.
    assert f"--out OTHER --data {folder.data}" in refused.value.hint
    assert "remove" not in refused.value.hint
    assert folder.recipe.read_text() == "text"


def test_settings_of_the_answers_need_other_data(folder):
    with pytest.raises(UsageError, match=r"data\.max_new_tokens = 256") as refused:
        folder.begin("new", recipe(data={**library("lib"), "max_new_tokens": 9}))
    assert refused.value.hint.endswith("--out OTHER")


def test_long_values_are_cut_to_where_they_differ(fresh):
    opener = (
        "Write a function that takes a list of numbers and gives back the sum of " + "all " * 20
    )
    written = {"source": "self", "name": "own", "count": 2}
    ends = [[f"{opener}of the {end} numbers"] for end in ("odd", "even")]
    first, second = ({"prompts": [{**written, "openers": openers}]} for openers in ends)
    fresh.begin("text", recipe(data=first))
    fresh.checkpoints.mkdir()
    (fresh.checkpoints / LAST).touch()
    with pytest.raises(UsageError) as refused:
        fresh.begin("text", recipe(data=second))
    assert refused.value.message.endswith(
        'data.prompts.own.openers[0] = ... all all all of the odd numbers", the recipe has '
        '... all all all of the even numbers"'
    )
    # Of a long new table the beginning is shown, with its name and count.
    many = {**written, "name": "more", "openers": [opener] * 3}
    with pytest.raises(UsageError, match="the recipe has ") as refused:
        fresh.begin("text", recipe(data={"prompts": [*first["prompts"], many]}))
    assert '{"source": "self", "name": "more", "count": 2, "openers": [' in refused.value.message
    assert refused.value.message.endswith("...")


def test_before_a_checkpoint_any_recipe_may_take_its_place(fresh):
    fresh.note(failed={"step": 1}, changes=[{}], recipe="a")
    fresh.curves.write_text("step\n0\n")
    other = recipe(method="medusa1", data=library("lib", "more"), head={"heads": 2})
    fresh.begin("other", other)
    assert fresh.recipe.read_text() == "other"
    kept = json.loads(fresh.resolved.read_text())
    assert (kept["method"], len(kept["data"]["prompts"])) == ("medusa1", 2)
    # Nothing of a loop that left no checkpoint is told of this one.
    assert fresh.noted() == {"recipe": "a"}
    assert not fresh.curves.exists()


def test_a_finished_head_needs_no_checkpoint_to_be_that_of_its_recipe(fresh):
    fresh.head.mkdir()
    with pytest.raises(UsageError, match="holds a training with"):
        fresh.begin("other", recipe(method="medusa1"))


def test_keys_that_change_no_weight_may_change(folder):
    free = {"data": {**library("lib"), "batch": 7}, "validate": {"limit": 2}}
    folder.begin("text", recipe(title="Other", train={"patience": 1, "validations": 9}, **free))
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
        with pytest.raises(PrerequisiteError, match="is no") as refused:
            folder.noted()
        assert refused.value.hint == "remove this file and type the same command again"

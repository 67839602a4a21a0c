"""Recipes that share tables with others."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.errors import UsageError
from specbench.train.recipe.read import read_recipe

SHARED = """
[target]
model = "some/model"
dtype = "bfloat16"

[data]
seed = 7

[[data.prompts]]
source = "library"
name = "code"
count = 3
"""
OWN = """
schema_version = 1
name = "mine"
method = "mtp"
include = "data.toml"

[data]
batch = 5
"""


def written(folder: Path, own: str = OWN, shared: str = SHARED) -> Path:
    (folder / "data.toml").write_text(shared)
    (folder / "recipe.toml").write_text(own)
    return folder / "recipe.toml"


def test_what_a_recipe_leaves_out_comes_from_the_included_file(tmp_path):
    found = read_recipe(written(tmp_path))
    assert (found.target.model, found.target.dtype) == ("some/model", "bfloat16")
    assert (found.data.seed, found.data.batch) == (7, 5)
    assert [source.name for source in found.data.prompts] == ["code"]


def test_the_recipe_wins(tmp_path):
    own = OWN.replace("batch = 5", "seed = 8") + '\n[target]\nmodel = "other"\n'
    found = read_recipe(written(tmp_path, own))
    assert (found.data.seed, found.target.model, found.target.dtype) == (8, "other", "bfloat16")


def test_a_list_of_the_recipe_replaces_the_whole_one(tmp_path):
    own = OWN + '\n[[data.prompts]]\nsource = "library"\nname = "text"\ncount = 2\nkind = "text"\n'
    assert [source.name for source in read_recipe(written(tmp_path, own)).data.prompts] == ["text"]


@pytest.mark.parametrize(
    ("include", "said"),
    [
        ('"../data.toml"', "not the name of a file beside the recipe"),
        ("3", "include = 3"),
        ('"missing.toml"', "no recipe"),
    ],
)
def test_what_cannot_be_included(tmp_path, include, said):
    with pytest.raises(UsageError, match=said):
        read_recipe(written(tmp_path, OWN.replace('"data.toml"', include)))


def test_an_included_file_includes_nothing(tmp_path):
    with pytest.raises(UsageError, match="cannot include another"):
        read_recipe(written(tmp_path, shared='include = "more.toml"\n' + SHARED))


def test_messages_name_both_files(tmp_path):
    with pytest.raises(UsageError, match=r"recipe.toml with data.toml: data.sed"):
        read_recipe(written(tmp_path, shared=SHARED.replace("seed", "sed")))


def test_the_recipes_of_the_zoo_can_be_read():
    found = sorted(Path("scripts/train_zoo").glob("smollm2-*.toml"))
    assert found
    for path in found:
        assert read_recipe(path).name == path.stem

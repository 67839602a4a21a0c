"""A bigram table through `specbench train`: counted, drafted along, exported with a card."""

import json
from itertools import pairwise

import pytest
from safetensors.torch import load_file

from specbench.errors import UsageError
from specbench.train.recipe.schema import recipe_of
from tests.train.job.spelling import LETTERS, ids
from tests.train.job.trained import Heard

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def counted(bench, one_thread):
    folder = bench.folder("bigram")
    return folder, bench.train(bench.recipe("bigram"), folder, Heard())


def test_the_table_knows_the_alphabet(counted):
    folder, outcome = counted
    assert outcome.finished
    table = load_file(folder.head / "bigram.safetensors")["next"].tolist()
    letters = ids()[: len(LETTERS)]
    # What follows a letter is the next one; few are sampled away at temperature 1.
    followed = [table[a] == b for a, b in pairwise(letters) if table[a] >= 0]
    assert len(followed) > 15
    assert all(followed)


def test_it_drafts_as_the_target_speaks(counted):
    # The target's next token depends on the last one alone, so that a step is nearly always whole.
    assert counted[1].standing.best > 2.5


def test_a_second_call_has_nothing_to_do(counted, bench):
    folder, first = counted
    heard = Heard()
    again = bench.train(bench.recipe("bigram"), folder, heard)
    assert (again.finished, again.standing.stopped) == (True, "nothing is left to do")
    assert again.standing.best == first.standing.best
    assert (heard.stages, heard.notes) == ([], [])


def test_record_and_card_say_that_nothing_was_trained(counted):
    folder, _ = counted
    record = json.loads((folder.head / "training.json").read_text())
    assert record["method"] == "bigram"
    assert record["loop"].keys() == {"held_out_accept_length"}
    card = (folder.head / "README.md").read_text()
    assert "counted by: `specbench train`" in card
    assert "drafter `bigram`" in card
    assert not folder.checkpoints.exists()


@pytest.mark.parametrize("table", ["head", "capture", "train"])
def test_tables_that_it_does_not_read_are_refused(table):
    key = {"head": ("heads", 2), "capture": ("dtype", "float32"), "train": ("epochs", 1.0)}[table]
    source = {"source": "library", "name": "code", "count": 1}
    data = {
        "schema_version": 1,
        "name": "a",
        "method": "bigram",
        "target": {"model": "m"},
        "data": {"prompts": [source]},
        table: {key[0]: key[1]},
    }
    with pytest.raises(UsageError, match=f"{table}.{key[0]}.*counts answers and trains nothing"):
        recipe_of(data, "recipe.toml")

"""Before a checkpoint a recipe may change; what the card is drafted along is on neither side."""

import pytest

from specbench.errors import UsageError
from specbench.suites.split import split_of
from specbench.train.job.stages import Inference, prepare
from tests.train.job.trained import Heard

pytestmark = pytest.mark.usefixtures("one_thread")


def test_what_an_error_says_to_change_is_accepted(bench):
    folder = bench.folder("begun", "data-begun")
    none_held, heard = bench.recipe("mtp", data={"held_out": 1e-9}), Heard()
    with pytest.raises(UsageError, match=r"or change data\.held_out"):
        bench.train(none_held, folder, heard)
    assert ("answers", 60, 60) in heard.stages
    answers = (folder.data / "answers.jsonl").read_bytes()
    # Another share and another method, and what was answered stays; it stops before a step.
    heard = Heard()
    heard.over = lambda: bool(heard.stages)
    changed = bench.recipe("medusa1", data={"held_out": 0.2, "batch": 8}, head={"heads": 2})
    assert not bench.train(changed, folder, heard).finished
    assert (folder.data / "answers.jsonl").read_bytes() == answers
    assert folder.noted() == {}


def test_the_card_is_drafted_along_what_was_not_trained_on(bench):
    suites = [str(bench.root / "prompts.jsonl")]
    recipe = bench.recipe("mtp", validate={"suites": suites, "limit": 1})
    inference = Inference(recipe, lambda text: None)
    found = prepare(recipe, bench.folder("x", "data-x"), inference, lambda *stage: None)
    used = {one.id for one in (*found.train, *found.held)}
    rest = {n for n in range(60) if split_of("prompts", f"p{n}") == "test"}
    assert used == {f"p-p{n}/0" for n in rest}
    assert found.left_out == {"an evaluation prompt": 60 - len(rest)}

"""One answer that a network cannot draft along is enough for it to be broken."""

import pytest
import torch

from specbench.errors import SpecbenchError
from specbench.models.opened import open_target
from specbench.train.data.asked import Answered
from specbench.train.data.target_answers import TargetAnswers
from specbench.train.job.methods import load_target, method_of, start_of
from specbench.train.job.on_suites import on_suites
from specbench.train.job.stages import target_settings
from specbench.train.job.validate import HeldOut
from tests.train.job.spelling import LETTERS, ids, spelled

pytestmark = pytest.mark.usefixtures("one_thread")
OPTIONS = {"tree": "chain"}
PLACE = 12
"""Of the letter behind which the heads break."""


@pytest.fixture
def recipe(bench):
    return bench.recipe("medusa1", head={"heads": 2})


@pytest.fixture
def heads(recipe):
    """Heads whose states overflow where one letter's axis is large, and nowhere else."""
    made = method_of(recipe, start_of(recipe, load_target(recipe), None), 1)
    with torch.no_grad():
        for parameter in made.module.parameters():
            if parameter.dim() == 2 and parameter.shape[0] == parameter.shape[1]:
                parameter[0, PLACE + 1] = 3e38
    return made


def answered(name, letter, temperature=0.0):
    line = tuple(spelled(letter)[:4])
    return Answered(name, "s", (1, ids()[LETTERS.index(letter)]), line, temperature, "length")


def test_those_that_fly_do_not_hide_one_that_fails(bench, heads, tmp_path):
    opened = open_target({"model": str(bench.root / "target")}, 1)
    early = [answered(f"early-{n}/0", LETTERS[n]) for n in range(3)]
    late = [answered(f"late-{n}/0", LETTERS[PLACE - 1 + n]) for n in range(2)]

    def held(answers):
        network = HeldOut(lambda folder: opened, answers, "medusa", 2, OPTIONS)
        return network.of(heads, tmp_path / "scratch")

    assert held(early)[0.0].accept_length >= 1
    with pytest.raises(SpecbenchError) as broken:
        held([early[0], late[0], *early[1:], late[1]])
    assert broken.value.message.startswith(
        "2 of 5 answers at temperature 0 could not be drafted along, the first of them late-0/0: "
        "the draft's logits hold a NaN"
    )
    assert "a lower train.learning_rate" in broken.value.hint
    assert "with --data it shares the data" in broken.value.hint
    assert not (tmp_path / "scratch").exists()


def test_suites_do_not_count_what_failed(bench, recipe, heads, tmp_path):
    heads.export(tmp_path / "head")
    target = TargetAnswers(target_settings(recipe))
    with pytest.raises(SpecbenchError, match="answers at temperature 0 could not be drafted along"):
        on_suites(target, recipe.validate_, "medusa", 2, tmp_path / "head", lambda *stage: None)
    target.close()

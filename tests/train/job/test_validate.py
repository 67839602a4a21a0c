"""Held-out answers drafted along: broken networks, and answers whose drafts are known."""

import pytest
import torch

from specbench.errors import SpecbenchError
from specbench.models.opened import open_target
from specbench.train.data.asked import Answered
from specbench.train.job.methods import load_target, method_of, start_of
from specbench.train.job.validate import HeldOut
from tests.train.job.spelling import LETTERS, ids, spelled

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def opened(bench, one_thread):
    return open_target({"model": str(bench.root / "target")}, 1)


@pytest.fixture
def heads(bench):
    """New Medusa heads, which say what the target says next, whatever the depth."""
    recipe = bench.recipe("medusa1", head={"heads": 2})
    return method_of(recipe, start_of(recipe, load_target(recipe), None), 1)


def answers(letters, temperature=0.0):
    return [
        Answered(f"q-{n}/0", "s", (1, ids()[LETTERS.index(one)]), line, temperature, "eos")
        for n, (one, line) in enumerate(letters)
    ]


def held(opened, answers):
    return HeldOut(lambda folder: opened, answers, "medusa", 2, {"tree": "chain"})


def test_by_hand(opened, heads, tmp_path):
    # New heads predict the token that the step emits anyway, and it is never the next one too,
    # but for these answers, whose letters come twice: behind each first one a draft is right.
    doubled = tuple(token for token in spelled("h")[:4] for _ in range(2))
    plain = tuple(spelled("h")[:8])
    found = held(opened, answers([("h", plain)])).of(heads, tmp_path / "scratch")
    assert found[0.0].accept_length == 1.0
    assert found[0.0].alphas == (0.0,)
    assert not (tmp_path / "scratch").exists()
    both = held(opened, answers([("h", plain), ("h", doubled)])).of(heads, tmp_path / "scratch")
    # The first token comes from the prefill. a a b b c c d d: from the first a, the state behind
    # the prompt says a again, which is right; then b is emitted. Seven tokens in four steps, and
    # seven in seven.
    assert both[0.0].accept_length == pytest.approx(14 / (7 + 4))


def test_temperatures_are_kept_apart(opened, heads, tmp_path):
    line = tuple(spelled("h")[:6])
    some = [*answers([("h", line)]), *answers([("h", line)] * 2, 0.7)]
    found = held(opened, some).of(heads, tmp_path / "scratch")
    assert list(found) == [0.0, 0.7]


def test_a_broken_network_is_said(opened, heads, tmp_path):
    with torch.no_grad():
        for parameter in heads.module.parameters():
            parameter.fill_(float("nan"))
    with pytest.raises(SpecbenchError, match="at temperature 0 could be drafted along: ") as said:
        held(opened, answers([("h", tuple(spelled("h")[:6]))])).of(heads, tmp_path / "scratch")
    assert "the network may be broken" in said.value.hint
    assert not (tmp_path / "scratch").exists()

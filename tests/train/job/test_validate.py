"""Held-out answers drafted along: broken networks, and answers whose drafts are known."""

import pytest
import torch

from specbench.drafters.medusa import MedusaDrafter
from specbench.errors import PrerequisiteError, SpecbenchError
from specbench.models.opened import OpenedTarget, open_target
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
    with pytest.raises(SpecbenchError, match="1 of 1 answers at temperature 0 could not") as said:
        held(opened, answers([("h", tuple(spelled("h")[:6]))])).of(heads, tmp_path / "scratch")
    assert "the network may be broken" in said.value.hint
    assert not (tmp_path / "scratch").exists()


@pytest.fixture
def room_of(monkeypatch):
    """Limits the answers whose KV fits at a time; gives the list of what was asked for."""
    plain = OpenedTarget.new_pool

    def limit(most):
        asked = []

        def new_pool(opened, slabs, rows):
            asked.append(slabs)
            if slabs > most:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
            return plain(opened, slabs, rows)

        monkeypatch.setattr(OpenedTarget, "new_pool", new_pool)
        return asked

    return limit


def test_fewer_at_a_time_where_memory_is_short(opened, heads, tmp_path, room_of):
    asked = room_of(2)
    doubled = tuple(token for token in spelled("h")[:4] for _ in range(2))
    some = answers([("h", tuple(spelled("h")[:8])), ("h", doubled)] * 5)
    network = held(opened, [*some, *answers([("h", doubled)] * 3, 0.7)])
    found = network.of(heads, tmp_path / "scratch")
    # Ten answers: by halves to two, which is where the next temperature begins.
    assert asked == [10, 5, 2, 2]
    # See above: seven tokens in seven steps, and in four.
    assert found[0.0].accept_length == pytest.approx(14 / (7 + 4))
    # The next validation knows.
    network.of(heads, tmp_path / "scratch")
    assert asked[4:] == [2, 2]


def test_memory_that_is_full_amid_a_batch(opened, heads, tmp_path, monkeypatch):
    doubled = tuple(token for token in spelled("h")[:4] for _ in range(2))
    some = answers([("h", tuple(spelled("h")[:8])), ("h", doubled)])
    plain = MedusaDrafter.observe

    def observe(drafter, rows, *rest):
        if len(rows) > 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")
        plain(drafter, rows, *rest)

    monkeypatch.setattr(MedusaDrafter, "observe", observe)
    found = held(opened, some).of(heads, tmp_path / "scratch")
    assert found[0.0].accept_length == pytest.approx(14 / (7 + 4))


def test_an_answer_that_does_not_fit_alone_says_what_to_change(opened, heads, tmp_path, room_of):
    asked = room_of(0)
    with pytest.raises(PrerequisiteError, match="out of memory while a single answer") as said:
        held(opened, answers([("h", tuple(spelled("h")[:6]))] * 3)).of(heads, tmp_path / "scratch")
    assert asked == [3, 1]
    for key in ("validate.conversations", "data.max_new_tokens", "validate.max_new_tokens"):
        assert key in said.value.hint
    assert "--batch" not in str(said.value)
    assert not (tmp_path / "scratch").exists()


def test_what_memory_does_not_explain_is_not_tried_again(opened, heads, tmp_path, monkeypatch):
    tried = []

    def new_pool(opened, slabs, rows):
        tried.append(slabs)
        raise PrerequisiteError("rows change with how many there are")

    monkeypatch.setattr(OpenedTarget, "new_pool", new_pool)
    with pytest.raises(PrerequisiteError, match="rows change"):
        held(opened, answers([("h", tuple(spelled("h")[:6]))] * 3)).of(heads, tmp_path / "scratch")
    assert tried == [3]

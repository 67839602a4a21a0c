"""What a step came to, read from the device in one copy."""

import pytest
import torch

from specbench.core.trace import ShortDraft
from specbench.decoding.outcome import Outcome, outcome, outcome_later
from specbench.decoding.protocols import BONUS, RECOVERED, Acceptance
from specbench.decoding.rows import BrokenRowsError
from specbench.drafters.chain import chain_draft

IDS = torch.tensor([[4, 5], [6, -1]])
VERDICT = Acceptance(
    torch.tensor([[0, -1, -1], [0, -1, -1]]),
    torch.tensor([1, 1]),
    torch.tensor([9, 8]),
    torch.tensor([RECOVERED, BONUS]),
)


def draft(sound=None):
    return chain_draft(IDS, (2, 1), None, [ShortDraft.NONE] * 2, sound)


def read(tensor):
    read.copies.append(tensor)
    return tensor.clone


@pytest.fixture(autouse=True)
def _no_copies():
    read.copies = []


def test_all_of_it_comes_in_one_copy():
    waiting = outcome_later(draft(), VERDICT, torch.tensor([True, True]), read)
    assert len(read.copies) == 1
    seen = waiting()
    assert seen.draft.tree.ids.tolist() == IDS.tolist()
    assert (seen.draft.tree.counts, seen.draft.tree.chain) == ((2, 1), True)
    for name in ("path", "n_accepted", "next_token", "kind"):
        assert torch.equal(getattr(seen.acceptance, name), getattr(VERDICT, name))


def test_on_a_cpu_there_is_nothing_to_copy():
    made = draft()
    assert outcome(made, VERDICT) == Outcome(made, VERDICT)


@pytest.mark.parametrize(("whose", "place"), [("draft", 1), ("target", 0)])
def test_rows_that_named_no_token_are_told_when_it_is_waited_for(whose, place):
    flags = torch.tensor([b != place for b in range(2)])
    fine = torch.tensor([True, True])
    spoiled = (flags, fine) if whose == "draft" else (fine, flags)
    waiting = outcome_later(draft(spoiled[0]), VERDICT, spoiled[1], read)
    with pytest.raises(BrokenRowsError, match=whose) as broken:
        waiting()
    assert broken.value.requests == (place,)


def test_nothing_drafted_is_an_outcome_too():
    empty = chain_draft(torch.empty(2, 0, dtype=torch.long), (0, 0), None, [ShortDraft.OFF] * 2)
    verdict = Acceptance(torch.full((2, 1), -1), *(torch.zeros(2, dtype=torch.long),) * 3)
    seen = outcome_later(empty, verdict, None, read)()
    assert seen.draft.tree.width == 0
    assert seen.acceptance.n_accepted.tolist() == [0, 0]

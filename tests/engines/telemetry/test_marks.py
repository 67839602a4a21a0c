"""Steps behind cumulative counters: expected columns are worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from specbench.core.trace import Cut, Finish, ShortDraft
from specbench.engines.http.piece import Mark
from specbench.engines.telemetry.marks import steps_from_marks
from specbench.metrics.identities import violations
from tests.metrics.traces import trace


def marks(*rows: tuple[int, int | None, int | None, float]) -> list[Mark]:
    return [Mark(*row) for row in rows]


def per_token(steps: Sequence[tuple[int, int, int]]) -> list[Mark]:
    """Marks as llama.cpp sends them: the prefill's token, then (verified, accepted, kept) steps."""
    rows, tokens, verified, accepted = [Mark(1, None, None, 0.001)], 1, 0, 0
    for clock, (drafted, taken, kept) in enumerate(steps, start=1):
        verified, accepted = verified + drafted, accepted + taken
        for _ in range(kept):
            tokens += 1
            rows.append(Mark(tokens, verified or None, accepted if verified else None, clock))
    return [*rows, rows[-1]]


def test_case_c8_every_step_and_the_prefill_apart():
    found = steps_from_marks(per_token([(3, 3, 4), (3, 1, 2), (3, 2, 3), (3, 2, 3)]), Finish.LENGTH)
    assert found is not None
    assert found.committed == [4, 2, 3, 3]
    assert sum(found.committed) / len(found) == 3.0
    assert found.verified == found.judged == found.proposed == [3, 3, 3, 3]
    assert found.accepted == [3, 1, 2, 2]
    assert found.cut == [Cut.NONE] * 4
    assert found.tick == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("finish", "cut"), [(Finish.EOS, Cut.EOS), (Finish.STOP, Cut.STOP), (Finish.LENGTH, Cut.LENGTH)]
)
def test_an_end_inside_an_accepted_run_cuts_the_last_step(finish, cut):
    found = steps_from_marks(per_token([(5, 5, 6), (5, 4, 2)]), finish)
    assert found is not None
    assert found.committed == [6, 2]
    assert found.judged == [5, 2]
    assert found.accepted == [5, 2]
    assert found.cut == [Cut.NONE, cut]


def test_an_end_at_the_recovered_token_cuts_nothing():
    found = steps_from_marks(per_token([(3, 3, 4)]), Finish.EOS)
    assert found is not None
    assert (found.cut, found.judged, found.committed) == ([Cut.NONE], [3], [4])


@pytest.mark.parametrize("drafted", [2, 4])
def test_an_end_behind_the_accepted_leaves_the_rest_unjudged(drafted):
    # [a, end, x, x] taken to the end, or [a, x, x, x] with the end in place of the first x:
    # 1 accepted and 2 committed in both. Only the draft a was surely judged.
    found = steps_from_marks(per_token([(3, 1, 2), (drafted, 1, 2)]), Finish.EOS)
    assert found is not None
    assert found.verified == [3, drafted]
    assert (found.judged, found.accepted, found.committed) == ([3, 1], [1, 1], [2, 2])
    assert found.cut == [Cut.NONE] * 2
    for finish in (Finish.STOP, Finish.LENGTH):
        other = steps_from_marks(per_token([(3, 1, 2), (drafted, 1, 2)]), finish)
        assert other is not None
        assert other.judged == [3, drafted]


def test_an_end_in_place_of_the_first_draft_keeps_the_identities():
    found = steps_from_marks(per_token([(3, 2, 3), (3, 0, 1)]), Finish.EOS)
    assert found is not None
    assert (found.judged, found.accepted, found.committed) == ([3, 0], [2, 0], [3, 1])
    made = replace(trace(arrivals=[(1, 1), (2, 3), (3, 1)]), steps=found, finish=Finish.EOS)
    assert violations(made) == []


def test_steps_without_a_draft_say_why():
    mixed = steps_from_marks(per_token([(0, 0, 1), (2, 0, 1), (0, 0, 1)]), Finish.LENGTH)
    assert mixed is not None
    assert mixed.short_draft == [ShortDraft.NO_MATCH, ShortDraft.NONE, ShortDraft.LIMIT]
    plain = steps_from_marks(per_token([(0, 0, 1)] * 3), Finish.EOS)
    assert plain is not None
    assert plain.short_draft == [ShortDraft.OFF] * 3
    assert plain.committed == [1, 1, 1]


def test_one_token_is_the_prefills_and_no_step():
    found = steps_from_marks(marks((1, None, None, 0.001), (1, None, None, 0.001)), Finish.LENGTH)
    assert found is not None
    assert len(found) == 0


def test_tokens_of_a_split_character_are_placed_by_what_was_accepted():
    # Four foxes of three tokens each: the first token of a character is shown with its last one,
    # perhaps in the next step. 1 prefill + 6 + 6 + 1 = 14 tokens.
    found = steps_from_marks(
        marks((3, 5, 5, 1), (6, 5, 5, 1), (9, 10, 10, 2), (12, 10, 10, 2), (14, 10, 10, 3)),
        Finish.LENGTH,
    )
    assert found is not None
    assert found.committed == [6, 6, 1]
    assert found.accepted == [5, 5, 0]


def test_plain_steps_hidden_by_a_split_character_are_counted():
    found = steps_from_marks(marks((3, None, None, 1), (6, None, None, 2)), Finish.LENGTH)
    assert found is not None
    assert found.committed == [1] * 5


@pytest.mark.parametrize(
    ("rows", "finish"),
    [
        ([], Finish.LENGTH),
        ([(1, None, None, 0), (4, 3, 1, 1)], Finish.LENGTH),  # 3 tokens, 1 accepted
        ([(1, 0, 0, 0), (2, 3, 4, 1)], Finish.LENGTH),  # more accepted than verified
        ([(1, 0, 0, 0), (4, 3, 2, 1), (5, 2, 2, 2)], Finish.LENGTH),  # a counter falls
        ([(3, 5, 5, 1), (2, 5, 5, 2)], Finish.LENGTH),  # tokens fall
        ([(1, 0, 0, 0), (2, 3, 3, 1), (5, 6, 3, 2)], Finish.LENGTH),  # cut, but not the last
        ([(1, 0, 0, 0), (2, 3, 3, 1)], Finish.ERROR),  # nothing says what cut it
        ([(0, 0, 0, 0)], Finish.EOS),
    ],
)
def test_contradictions_give_no_steps(rows, finish):
    assert steps_from_marks(marks(*rows), finish) is None

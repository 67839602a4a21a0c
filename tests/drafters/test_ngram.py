"""Prompt lookup against a brute-force definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.core.trace import ShortDraft
from specbench.drafters.ngram import NgramDrafter
from specbench.errors import UsageError
from specbench.models.kv_pool import KVPool
from tests.toys import request, sequence


def by_definition(tokens, room, min_n, max_n, occurrence):
    """The continuation of the longest suffix, of min_n to max_n tokens, that occurs earlier."""
    for n in range(min(max_n, len(tokens) - 1), min_n - 1, -1):
        starts = [i for i in range(len(tokens) - n) if tokens[i : i + n] == tokens[-n:]]
        if starts:
            after = [i + n for i in starts]
            whole = [a for a in after if len(tokens[a : a + room]) == room]
            chosen = whole[-1] if occurrence == "last" and whole else after[0]
            return tokens[chosen : chosen + room]
    return []


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=30),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(0, 3),
    st.sampled_from(["first", "last"]),
)
def test_lookup_equals_the_definition(tokens, room, min_n, more, occurrence):
    drafter = NgramDrafter(min_n, min_n + more, occurrence)
    got = drafter.lookup(np.array(tokens), room)
    assert got == by_definition(tokens, room, min_n, min_n + more, occurrence)


@pytest.mark.parametrize(("occurrence", "expected"), [("first", [7, 1, 2]), ("last", [8, 1, 2])])
def test_the_chosen_occurrence_is_continued(occurrence, expected):
    tokens = np.array([1, 2, 7, 1, 2, 8, 1, 2])
    assert NgramDrafter(2, 4, occurrence).lookup(tokens, 3) == expected


def test_the_longest_suffix_wins_over_a_later_short_one():
    tokens = np.array([1, 2, 3, 9, 2, 3, 5, 1, 2, 3])
    assert NgramDrafter(1, 3, "last").lookup(tokens, 1) == [9]
    assert NgramDrafter(1, 2, "last").lookup(tokens, 1) == [5]


def test_drafts_end_with_the_context():
    assert NgramDrafter(1, 2, "last").lookup(np.array([5, 6, 5]), 4) == [6, 5]


@pytest.mark.parametrize(
    ("prompt", "room", "drafted", "short"),
    [
        ([1, 2, 3, 1, 2], 3, [3, 1, 2], ShortDraft.NONE),
        ([1, 2, 1, 2], 3, [1, 2], ShortDraft.DRAFTER_STOPPED),
        ([1, 2, 3, 4], 3, [], ShortDraft.NO_MATCH),
        ([1, 2, 1, 2], 0, [], ShortDraft.LIMIT),
    ],
)
def test_short_drafts_name_their_reason(prompt, room, drafted, short):
    pool = KVPool(1, 32, None, None)
    draft = NgramDrafter(2, 4).propose([sequence(request(prompt, 9), pool)], [room])
    assert draft.tree.ids.tolist() == [drafted]
    assert draft.tree.counts == (len(drafted),)
    assert draft.short == (short,)


@pytest.mark.parametrize(
    "options", [{"min_n": 0}, {"min_n": 4, "max_n": 3}, {"max_n": 0}, {"occurrence": "middle"}]
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(UsageError, match="ngram"):
        NgramDrafter(**options)


def test_a_loop_is_continued_by_a_whole_draft():
    tokens = np.array([9] + [5] * 8)
    assert NgramDrafter(1, 3, "last").lookup(tokens, 4) == [5, 5, 5, 5]

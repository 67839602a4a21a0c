"""Suffix decoding against a count of every occurrence of every suffix."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.core.trace import Finish, ShortDraft
from specbench.drafters.suffix import INFO, SuffixDrafter
from specbench.drafters.suffix_answers import Answers
from specbench.drafters.suffix_match import Bounds
from specbench.errors import UsageError
from specbench.models.kv_pool import KVPool
from tests.drafters.build_contexts import context_of
from tests.toys import request, sequence


def by_definition(texts, pattern, most, bounds):
    """(path, its score, length of the match): every match of every length, counted one by one."""
    found = []
    for matched in range(1, min(bounds.depth - 1, len(pattern)) + 1):
        suffix = pattern[-matched:]
        behind = [
            text[at + matched :]
            for text in texts
            for at in range(len(text) - matched + 1)
            if text[at : at + matched] == suffix
        ]
        room = min(most, int(Fraction(bounds.factor) * matched), bounds.depth - matched)
        path, score = [], Fraction(0)
        while len(path) < room:
            heads = [
                rest[len(path)]
                for rest in behind
                if rest[: len(path)] == path and len(rest) > len(path)
            ]
            if not heads:
                break
            counts = Counter(heads)
            often = max(counts.values())
            if often / len(behind) < bounds.least:
                break
            # Occurrences are listed in the order of the texts: the last one was seen last.
            path.append(next(x for x in reversed(heads) if counts[x] == often))
            score += Fraction(often, len(behind))
        if path:
            found.append((score, matched, path))
    score, matched, path = max(found, default=(Fraction(0), 0, []))
    return path, score, matched


TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=30)
BOUNDS = st.builds(
    Bounds,
    st.sampled_from([2, 3, 5, 8, 24]),
    st.sampled_from([0.5, 1.0, 2.0]),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)


def row_of(tokens, item="item", prompt=None):
    """A request whose text is ``tokens``; all of it prompt unless told otherwise."""
    known = len(tokens) if prompt is None else prompt
    row = sequence(request(tokens[:known], 40, item=item), KVPool(1, 128, None, None))
    for token in tokens[known:]:
        row.append(token)
    return row


@settings(deadline=None, max_examples=400)
@given(TOKENS, st.integers(1, 9), BOUNDS)
def test_a_request_is_continued_as_the_counts_say(tokens, most, bounds):
    expected, _, _ = by_definition([tokens], tokens, most, bounds)
    assert SuffixDrafter(bounds).lookup(row_of(tokens), most) == expected


@settings(deadline=None, max_examples=400)
@given(
    TOKENS,
    st.lists(st.tuples(TOKENS, st.sampled_from("abc")), max_size=8),
    st.integers(1, 4),
    BOUNDS,
)
def test_earlier_answers_are_counted_too_if_they_are_of_other_items(tokens, earlier, most, bounds):
    drafter = SuffixDrafter(bounds, answers=most)
    for answer, item in earlier:
        row = row_of([7, *answer], item, prompt=1)
        row.finish = Finish.LENGTH
        drafter.release([row])
    own, own_score, _ = by_definition([tokens], tokens, 6, bounds)
    others = [answer for answer, item in earlier[-most:] if item != "a"]
    path, score, _ = by_definition(others, tokens, 6, bounds)
    expected = path if score > own_score else own
    assert drafter.lookup(row_of(tokens, "a"), 6) == expected


@settings(deadline=None, max_examples=200)
@given(st.lists(TOKENS, max_size=20), st.integers(1, 5))
def test_places_are_those_of_the_answers_that_are_left(answers, most):
    kept = Answers(most)
    for number, answer in enumerate(answers):
        kept.add(answer, number)
    assert len(kept) == min(most, len(answers))
    left = answers[-most:]
    for token in range(3):
        found = kept.ends(token, None)
        assert (np.diff(found) > 0).all()
        assert (kept.text[found] == token).all()
        assert len(found) == sum(answer.count(token) for answer in left)
    # What is forgotten is dropped in time: never more than the answers left, twice.
    assert len(kept.text) <= 2 * sum(len(answer) + 1 for answer in left)


def test_memory_is_bounded_by_the_number_of_answers():
    kept = Answers(4)
    sizes = []
    for number in range(400):
        kept.add([number % 7, 1, 2, 3] * 10, number % 9)
        sizes.append(kept.nbytes)
    assert max(sizes[100:]) <= max(sizes[:100])
    kept.clear()
    assert (len(kept), kept.nbytes, len(kept.ends(1, None))) == (0, 0, 0)


@pytest.mark.parametrize(
    ("tokens", "most", "expected"),
    [
        # "1 2" once before: one token per matched one, and the half of its occurrences that is
        # not the end itself goes on.
        ([1, 2, 3, 4, 1, 2], 5, [3, 4]),
        ([1, 2, 3, 4, 1, 2], 1, [3]),
        ([1, 2, 3, 4], 5, []),
        # "9" was followed by 5 twice and by 6 once; one matched token gives one drafted one.
        ([9, 5, 8, 9, 6, 7, 9, 5, 4, 9], 5, [5]),
        # Equally often: the later one.
        ([9, 5, 8, 9, 6, 7, 9], 5, [6]),
    ],
)
def test_drafts_by_hand(tokens, most, expected):
    assert SuffixDrafter(Bounds(24, 1.0, 0.1)).lookup(row_of(tokens), most) == expected


def test_a_longer_match_wins_only_by_what_can_be_expected_of_it():
    # Behind "7 8 9" of this text there is one way, taken in 1 of 2 occurrences: 3 * 1/2 = 1.5
    # tokens. Depth 4 leaves room for a single token behind it, 1/2, and for two behind "8 9".
    tokens = [7, 8, 9, 1, 2, 3, 7, 8, 9]
    assert SuffixDrafter(Bounds(24, 1.0, 0.1)).lookup(row_of(tokens), 8) == [1, 2, 3]
    assert SuffixDrafter(Bounds(4, 1.0, 0.1)).lookup(row_of(tokens), 8) == [1, 2]


def test_a_path_ends_where_it_gets_unlikely():
    tokens = [1, 2, 5, 1, 2, 6, 1, 2, 7, 1, 2, 8, 1]
    # "1" is followed by 2 in 4 of 5 places, then by any of four: 1 of 5.
    assert SuffixDrafter(Bounds(24, 2.0, 0.1)).lookup(row_of(tokens), 8) == [2, 8]
    assert SuffixDrafter(Bounds(24, 2.0, 0.3)).lookup(row_of(tokens), 8) == [2]


@pytest.mark.parametrize(
    ("prompt", "room", "drafted", "short"),
    [
        ([1, 2, 3, 1, 2], 2, [3, 1], ShortDraft.NONE),
        ([1, 2, 3, 1, 2], 4, [3, 1], ShortDraft.DRAFTER_STOPPED),
        ([1, 2, 3, 4], 3, [], ShortDraft.NO_MATCH),
        ([1, 2, 1, 2], 0, [], ShortDraft.LIMIT),
    ],
)
def test_short_drafts_name_their_reason(prompt, room, drafted, short):
    draft = SuffixDrafter(Bounds(24, 1.0, 0.1)).propose([row_of(prompt)], [room])
    assert draft.tree.ids.tolist() == [drafted]
    assert (draft.tree.counts, draft.short) == ((len(drafted),), (short,))


def ended(item, output, finish=Finish.EOS):
    row = row_of([50, *output], item, prompt=1)
    row.finish = row.trace.finish = finish
    return row


def test_answers_are_remembered_when_they_ended_by_themselves():
    drafter = SuffixDrafter(Bounds(24, 1.0, 0.1), answers=10)
    asked = row_of([3, 4], "other")
    drafter.release([ended("failed", [3, 4, 5], Finish.ERROR)])
    drafter.release([ended("left", [3, 4, 5], None)])
    drafter.release([ended("other", [3, 4, 5])])
    assert drafter.lookup(asked, 4) == []
    drafter.release([ended("item", [3, 4, 6, 7])])
    assert drafter.lookup(asked, 4) == [6, 7]
    # The prompt is no answer.
    assert drafter.lookup(row_of([50], "other"), 4) == []
    assert drafter.state_bytes > 0
    drafter.reset()
    assert drafter.lookup(asked, 4) == []
    assert drafter.state_bytes == 0


def test_without_answers_nothing_is_kept():
    drafter = SuffixDrafter(Bounds(24, 1.0, 0.1))
    drafter.release([ended("item", [3, 4, 6, 7])])
    drafter.reset()
    assert drafter.lookup(row_of([3, 4], "other"), 4) == []
    assert drafter.state_bytes == 0


def test_the_scope_decides_whether_it_is_stateful():
    assert not INFO.facts({}).stateful
    assert not INFO.facts({"scope": "request"}).stateful
    assert INFO.facts({"scope": "answers"}).stateful


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"depth": 1}, "depth"),
        ({"depth": 2.5}, "depth"),
        ({"factor": 0}, "factor"),
        ({"factor": "much"}, "factor"),
        ({"factor": float("inf")}, "factor"),
        ({"min_prob": 1.5}, "min_prob"),
        ({"scope": "run"}, "scope"),
        ({"answers": 5}, "scope"),
        ({"scope": "answers", "answers": 0}, "answers"),
    ],
)
def test_options_out_of_range_are_refused(options, said):
    with pytest.raises(UsageError, match=said):
        SuffixDrafter.build(options, context_of())

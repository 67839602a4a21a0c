import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.metrics.degenerate import GRAM, degenerate_share, repeated_share, sound_keys
from tests.metrics.traces import trace


def test_only_later_occurrences_cover_their_tokens():
    assert repeated_share(range(100)) == 0
    assert repeated_share([]) == 0
    assert repeated_share([1] * 8) == 0
    assert repeated_share([1] * 9) == pytest.approx(8 / 9)
    assert repeated_share([*range(8), 99, *range(8)]) == pytest.approx(8 / 17)
    assert repeated_share([*range(7), 99, *range(7)]) == 0


@given(st.lists(st.integers(0, 2), max_size=40))
def test_against_the_definition_read_literally(ids):
    covered = set()
    for start in range(len(ids) - GRAM + 1):
        gram = ids[start : start + GRAM]
        if any(ids[earlier : earlier + GRAM] == gram for earlier in range(start)):
            covered |= set(range(start, start + GRAM))
    assert repeated_share(ids) == (len(covered) / len(ids) if ids else 0)


def test_share_and_sound_requests():
    loop = trace("loop", arm="plain", arrivals=[(1, 30)], ids=[1, 2, 3] * 10)
    fine = trace("fine", arm="plain", arrivals=[(1, 30)])
    share = degenerate_share([loop, fine])
    assert (share.number(), share.n) == (0.5, 2)
    assert {key.item for key in sound_keys([loop, fine])} == {"fine"}
    assert not degenerate_share([]).known
    assert not degenerate_share([trace(arrivals=[(1, 3)], ids=[])]).known

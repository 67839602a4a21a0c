"""Attention over random trees, tails, windows and batches against one loop over every score."""

import random

import pytest
import torch

from specbench.models.attention import sight
from specbench.models.attention.sdpa import SdpaPlan
from specbench.models.packed_batch import Segment, pack
from tests.models.scored import CPU, random_segments, random_tree, require_every_score

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("split_from", [0, 10**9], ids=["prefix apart", "all at once"])
@pytest.mark.parametrize("window", [None, 4, 12, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_attention_is_what_every_score_says(monkeypatch, seed, window, split_from):
    monkeypatch.setattr(sight, "SPLIT_FROM", split_from)
    torch.manual_seed(seed)
    require_every_score(SdpaPlan, random_segments(random.Random(seed), 48), window)


def test_a_long_prefix_has_no_mask():
    visible, depths = random_tree(random.Random(0), 0, 64)
    segment = Segment(0, 4096, 64, visible, torch.tensor(depths))
    seen = sight.sight(segment, 3, None, torch.float32, CPU, can_split=True)
    assert seen.open == 4096
    assert seen.mask.shape == (3 * 64, 64)
    joint = sight.sight(segment, 3, None, torch.float32, CPU, can_split=False)
    assert joint.open == 0
    assert joint.mask.shape == (3 * 64, 4096 + 64)
    assert torch.equal(joint.mask[:, 4096:], seen.mask)
    assert (joint.mask[:, :4096] == 0).all()


def test_rows_outside_of_every_window_are_not_read():
    # Tokens at positions 100, 101 and a window of 8: 93 is the first that either sees.
    seen = sight.sight(Segment(0, 100, 2), 1, 8, torch.float32, CPU, can_split=True)
    assert seen.first == 93
    assert seen.mask.shape == (2, 102 - 93)
    assert seen.mask.isinf().nonzero().tolist() == [[0, 8], [1, 0]]


@pytest.mark.parametrize(
    ("segment", "positions"),
    [
        (Segment(0, 5, 3), [5, 6, 7]),
        # A tail of 5 rows of which 2 are new: 4 rows before the tail.
        (Segment(0, 7, 2, torch.ones(2, 5).bool(), torch.tensor([0, 1, 1, 2, 1])), [6, 5]),
        (Segment(0, 7, 2, torch.ones(2, 5).bool(), torch.tensor([-1, 0, 0, 1, -1])), [5, 3]),
        (Segment(0, 7, 2, torch.ones(2, 5).bool(), None), [7, 8]),
    ],
)
def test_positions_count_from_the_rows_before_the_tail(segment, positions):
    batch = pack([segment], torch.zeros(segment.count, dtype=torch.int64), "none")
    assert batch.positions.tolist() == positions
    assert batch.places.tolist() == list(range(segment.start, segment.start + segment.count))

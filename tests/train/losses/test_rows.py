"""From logits of a part of the vocabulary, and what whole rows sum to, to probabilities."""

from __future__ import annotations

import numpy as np
import torch

from specbench.train.losses.divergences import forward_kl
from specbench.train.losses.rows import target_probs
from tests.train.losses.laws import ROWS, TOKENS, logits, softmax

NONE = torch.full((ROWS,), -1)


def test_a_part_has_its_probabilities_under_the_whole():
    rows = logits(1)
    kept = [0, 3, 4, 8]
    found = target_probs(rows[:, kept], rows.logsumexp(1), NONE, NONE)
    law = softmax(rows)
    np.testing.assert_allclose(found.probs, law[:, kept], rtol=1e-12)
    np.testing.assert_allclose(found.mass, law[:, kept].sum(1), rtol=1e-12)
    assert len(found) == ROWS


def test_the_whole_vocabulary_sums_to_one():
    rows = logits(2)
    found = target_probs(rows, None, NONE, NONE)
    np.testing.assert_allclose(found.probs, softmax(rows), rtol=1e-12)
    assert (found.mass == 1).all()


def test_sums_above_one_are_brought_down_so_that_rows_sum_to_their_mass():
    rows = logits(3)
    # States in fewer bits: what the whole rows summed to was a little less.
    found = target_probs(rows[:, : TOKENS - 1], rows.logsumexp(1) - 0.9, NONE, NONE)
    assert (found.mass <= 1).all()
    np.testing.assert_allclose(found.probs.sum(1), found.mass, rtol=1e-12)
    law = softmax(rows)[:, : TOKENS - 1]
    np.testing.assert_allclose(
        found.probs / found.probs.sum(1, keepdim=True), law / law.sum(1, keepdims=True), rtol=1e-12
    )
    draft = logits(4, tokens=TOKENS - 1)
    np.testing.assert_allclose(
        forward_kl(found, draft + 100), forward_kl(found, draft), rtol=1e-9, atol=1e-9
    )

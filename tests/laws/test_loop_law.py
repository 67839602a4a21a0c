"""The whole loop with its own random numbers, by Monte Carlo: streams are fresh and apart."""

from collections import Counter

import pytest
import torch
from scipy import stats

from specbench.decoding import noise
from specbench.decoding.random import Stream, uniforms
from specbench.drafters.grow import chain as growing
from specbench.laws.outputs import own_law
from specbench.laws.tables import FOUR_DRAFT, FOUR_TARGET, eighths
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from tests.tables import decode, table_draft
from tests.toys import request

SAMPLES, LENGTH, START = 3000, 6, 0
# The same two rows everywhere. Half of the drafts are impossible and the residual has two tokens,
# so that noise shared with the draft shows at once.
FOUR = (FOUR_TARGET, FOUR_DRAFT)
CONSTANT = (eighths(*[[3, 0, 2, 3]] * 4), eighths(*[[4, 4, 0, 0]] * 4))


def p_value(rule, k, tables):
    """Chi-square of the tokens that no fewer than three rounds have emitted, against the target."""
    target, draft = tables
    rows = [line.log().clamp(min=-1e9).tolist() for line in target]
    drafts = [line.log().clamp(min=-1e9).tolist() for line in draft]
    asked = [request([START], LENGTH, temperature=1.0, seed=seed) for seed in range(SAMPLES)]
    drafter_of = table_draft(lambda tokens: drafts[tokens[-1]], len(draft))
    finished = decode(asked, lambda tokens: rows[tokens[-1]], drafter_of, rule, k)
    counts = Counter(tuple(row.trace.output_ids[-3:]) for row in finished)
    # The law of LENGTH tokens, summed over all but the last three.
    last = own_law(target, LENGTH)[START].view(-1, *[len(target)] * 3).sum(0)
    possible = [tuple(key) for key in last.nonzero().tolist()]
    expected = {key: float(last[key]) * SAMPLES for key in possible}
    assert counts.keys() <= expected.keys()
    large = [key for key, value in expected.items() if value >= 10]
    observed = [counts[key] for key in large]
    wanted = [expected[key] for key in large]
    rest = SAMPLES - sum(wanted)
    if rest > 1e-6:
        observed.append(SAMPLES - sum(observed))
        wanted.append(rest)
    return stats.chisquare(observed, wanted, sum_check=False).pvalue


@pytest.mark.parametrize("rule", [REJECTION, TARGET_MATCH])
@pytest.mark.parametrize(("k", "tables"), [(1, CONSTANT), (1, FOUR), (2, FOUR)])
def test_sequences_have_the_law_of_the_target(rule, k, tables):
    assert p_value(rule, k, tables) > 1e-3


def drafting_from(stream):
    def drawn(rows, node):
        seeds = [row.request.seed for row in rows]
        return torch.from_numpy(uniforms(seeds, stream, [row.step for row in rows], node))

    return drawn


@pytest.mark.parametrize("stream", [Stream.ACCEPT, Stream.RESIDUAL])
def test_a_draft_that_shares_a_stream_is_caught(monkeypatch, stream):
    monkeypatch.setattr(growing, "draft_uniforms", drafting_from(stream))
    assert p_value(REJECTION, 1, CONSTANT) < 1e-6


def test_the_drafts_have_a_stream_of_their_own():
    rows = decode(
        [request([0], 2, temperature=1.0, seed=5)],
        lambda t: [0.0] * 4,
        table_draft(lambda t: [0.0] * 4, 4),
        REJECTION,
        1,
    )
    assert torch.equal(noise.draft_uniforms(rows, 3), drafting_from(Stream.DRAFT)(rows, 3))

"""Golden numbers of cases C1-C8 and the identity of ALGORITHMS 2.1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.core.quantity import Absence
from specbench.core.trace import Cut, Granularity
from specbench.metrics import acceptance
from specbench.metrics.acceptance import accept_pos
from specbench.metrics.alpha import alpha, alpha_iid
from specbench.stats.independent import expected_length, iid_root
from tests.metrics.traces import SEED, trace


def value(metric, *traces):
    return metric(traces, seed=SEED).number()


@pytest.mark.parametrize(
    ("committed", "judged", "accepted", "cut"),
    [(3, 3, 3, Cut.EOS), (6, 5, 5, Cut.NONE), (4, 4, 4, Cut.LENGTH)],
)
def test_c1_tokens_behind_a_stop_are_not_counted(committed, judged, accepted, cut):
    t = trace(verified=[5], judged=[judged], accepted=[accepted], committed=[committed], cut=cut)
    assert value(acceptance.accept_length, t) == committed
    assert value(acceptance.accept_rate, t) == 1.0
    assert value(acceptance.waste, t) == pytest.approx(1 - accepted / 5)


def test_c2_bonus_included_and_positions():
    t = trace(verified=[5, 5, 5], accepted=[0, 2, 5])
    assert value(acceptance.accept_length, t) == pytest.approx(10 / 3)
    assert value(acceptance.accepted_mean, t) == pytest.approx(7 / 3)
    assert value(acceptance.accept_rate, t) == pytest.approx(7 / 15)
    table = accept_pos([t])
    rates = [table[f"rate_{k}"].number() for k in range(1, 6)]
    assert rates == pytest.approx([2 / 3, 2 / 3, 1 / 3, 1 / 3, 1 / 3])
    conditional = [table[f"conditional_{k}"].number() for k in range(1, 6)]
    assert conditional == pytest.approx([2 / 3, 1, 0.5, 1, 1])
    assert sum(rates) == pytest.approx(7 / 3)
    assert [table[f"reached_{k}"].number() for k in range(1, 6)] == [3, 2, 2, 1, 1]


def rounds(item, tokens, steps):
    """``tokens`` committed in ``steps`` steps, as evenly as whole tokens allow."""
    accepted = [tokens // steps - 1] * steps
    for index in range(tokens % steps):
        accepted[index] += 1
    return trace(item, verified=[5] * steps, accepted=accepted)


@pytest.mark.parametrize(
    ("a", "b", "pooled", "macro"),
    [((450, 100), (15, 10), 4.2273, 3.0), ((400, 100), (30, 10), 3.9091, 3.5)],
)
def test_c3_pooled_is_the_headline(a, b, pooled, macro):
    traces = rounds("a", *a), rounds("b", *b)
    assert value(acceptance.accept_length, *traces) == pytest.approx(pooled, abs=5e-5)
    assert value(acceptance.accept_length_macro, *traces) == pytest.approx(macro)


def test_c4_the_denominator_is_what_was_drafted():
    t = trace(verified=[5, 1, 0, 3], accepted=[2, 1, 0, 0])
    assert value(acceptance.accept_rate, t) == pytest.approx(3 / 9)
    assert value(acceptance.accept_length, t) == 1.75
    assert value(acceptance.draft_coverage, t) == 0.75
    assert value(acceptance.accept_length_drafted, t) == pytest.approx(6 / 3)
    assert value(acceptance.accept_length_uncut, t) == pytest.approx(6 / 3)


def test_trees_have_rates_by_depth_and_by_node_and_no_plain_one():
    # 7 nodes of depth 3 and 5 of depth 2, then a step that drafts nothing.
    t = trace(verified=[7, 5, 0], depth=[3, 2, 0], accepted=[2, 1, 0])
    assert value(acceptance.rate_depth, t) == pytest.approx(3 / 5)
    assert value(acceptance.rate_node, t) == pytest.approx(3 / 12)
    assert value(acceptance.waste, t) == pytest.approx(9 / 12)
    rate = acceptance.accept_rate([t], seed=SEED).value
    assert rate.absence is Absence.NOTHING_TO_MEASURE
    assert "trees" in rate.reason
    table = accept_pos([t])
    assert [table[f"judged_{k}"].number() for k in (1, 2, 3)] == [2, 2, 1]
    assert [table[f"rate_{k}"].number() for k in (1, 2, 3)] == [1.0, 0.5, 0.0]
    assert "rate_4" not in table
    assert acceptance.k_effective([t]).number() == 3
    chain = trace(verified=[3], accepted=[1])
    assert "chains" in acceptance.rate_depth([chain], seed=SEED).value.reason
    nothing = trace(verified=[0], accepted=[0])
    assert acceptance.rate_node([nothing], seed=SEED).value.reason == "nothing was drafted"


def test_e3_share_of_tokens_outside_the_drafts_vocabulary():
    # Prefill and steps give 1 + 3 and 1 + 5 tokens, of which 2 and 0 are outside.
    first, second = trace("a", verified=[2], accepted=[2]), trace("b", verified=[4], accepted=[4])
    first.outside_draft, second.outside_draft = 2, 0
    assert value(acceptance.outside_draft, first, second) == pytest.approx(2 / 10)
    whole = acceptance.outside_draft([trace(verified=[1], accepted=[1])], seed=SEED)
    assert whole.value.absence is Absence.NOTHING_TO_MEASURE


def test_c4_a_shy_drafter_shows_its_coverage():
    t = trace(verified=[1] * 19 + [0] * 64, accepted=[1] * 18 + [0] * 65)
    assert value(acceptance.accept_rate, t) == pytest.approx(0.9474, abs=5e-5)
    assert value(acceptance.accept_length, t) == pytest.approx(101 / 83)
    assert value(acceptance.drafted_per_token, t) == pytest.approx(0.19, abs=5e-3)


def test_c6_three_states_are_different():
    none = [trace(verified=[0] * 7, accepted=[0] * 7)]
    hidden = [trace(arrivals=[(100, 1), (130, 3)], granularity=Granularity.CHUNK)]
    zero = [trace(verified=[5] * 8, accepted=[0] * 8)]
    assert value(acceptance.accept_length, *none) == 1.0
    rate = acceptance.accept_rate(none, seed=SEED).value
    assert (rate.absence, rate.reason) == (Absence.NOTHING_TO_MEASURE, "nothing was drafted")
    for metric in (acceptance.accept_length, acceptance.accept_rate, alpha, alpha_iid):
        missing = metric(hidden, seed=SEED).value
        assert missing.absence is Absence.NOT_AVAILABLE
        assert "counters not exposed" in missing.reason
    assert value(acceptance.accept_rate, *zero) == 0.0
    assert value(acceptance.accept_length, *zero) == 1.0
    assert not accept_pos(none)["rate_1"].known
    assert not acceptance.k_effective(none).known
    assert not alpha_iid(none, seed=SEED).known


def test_c8_the_prefill_token_has_no_step():
    t = trace(
        verified=[3, 3, 3, 3], accepted=[3, 1, 2, 2], arrivals=[(100, 1), (130, 12)], ids=range(13)
    )
    assert value(acceptance.accept_length, t) == 3.0
    assert acceptance.tokens_outside_steps([t]).number() == 1


def test_the_largest_verified_draft_is_k():
    assert acceptance.k_effective([trace(verified=[2, 3], accepted=[0, 0])]).number() == 3


def test_failed_requests_do_not_count():
    bad = trace("b", verified=[5], accepted=[5], finish="error")
    assert value(acceptance.accept_length, trace(verified=[5], accepted=[0]), bad) == 1.0
    assert not acceptance.accept_length([bad], seed=SEED).known


def test_alpha_is_the_mean_overlap():
    t = trace(verified=[2, 2], accepted=[1, 0], overlap=[0.5, 0.7, 0.9])
    assert value(alpha, t) == pytest.approx(0.7)
    assert alpha([trace(verified=[2], accepted=[1])], seed=SEED).value.absence is (
        Absence.NOT_AVAILABLE
    )


E_TABLE = {
    0.5: {1: 1.5, 2: 1.75, 3: 1.875, 4: 1.9375, 5: 1.9688},
    0.7: {1: 1.7, 2: 2.19, 3: 2.533, 4: 2.773, 5: 2.941},
    0.8: {1: 1.8, 2: 2.44, 3: 2.952, 4: 3.362, 5: 3.689, 7: 4.161, 10: 4.571},
    0.9: {1: 1.9, 2: 2.71, 3: 3.439, 4: 4.095, 5: 4.686, 7: 5.695, 10: 6.862},
}


@pytest.mark.parametrize(
    ("a", "k", "length"), [(a, k, e) for a, row in E_TABLE.items() for k, e in row.items()]
)
def test_alpha_iid_inverts_the_table(a, k, length):
    assert expected_length(a, k) == pytest.approx(length, abs=5.1e-4)
    assert iid_root(expected_length(a, k) - 1, k) == pytest.approx(a, abs=1e-10)


def test_alpha_iid_of_a_trace_and_its_ends():
    assert value(alpha_iid, trace(verified=[1] * 4, accepted=[1, 1, 1, 0])) == pytest.approx(0.75)
    assert value(alpha_iid, trace(verified=[3], accepted=[3])) == pytest.approx(1.0)
    assert value(alpha_iid, trace(verified=[3], accepted=[0])) == 0.0
    with pytest.raises(ValueError, match="outside"):
        iid_root(4.0, 3)


def test_alpha_iid_carries_the_interval_over():
    traces = [trace(str(i), verified=[3] * 4, accepted=[i % 4, 1, 2, 3]) for i in range(12)]
    mean, root = acceptance.accepted_mean(traces, seed=SEED), alpha_iid(traces, seed=SEED)
    assert expected_length(root.low, 3) - 1 == pytest.approx(mean.low)
    assert expected_length(root.high, 3) - 1 == pytest.approx(mean.high)


@given(
    st.integers(1, 6).flatmap(
        lambda k: st.tuples(st.just(k), st.lists(st.integers(0, k), min_size=1))
    )
)
def test_accept_length_minus_one_is_the_sum_of_position_rates(drawn):
    k, accepted = drawn
    t = trace(verified=[k] * len(accepted), accepted=accepted)
    table = accept_pos([t])
    rates = sum(table[f"rate_{position}"].number() for position in range(1, k + 1))
    assert value(acceptance.accept_length, t) - 1 == pytest.approx(rates)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1))
def test_position_counts_add_up_for_short_drafts_too(rows):
    verified = [max(row) for row in rows]
    accepted = [min(row) for row in rows]
    t = trace(verified=verified, accepted=accepted)
    table = accept_pos([t])
    counted = sum(q.number() for name, q in table.items() if name.startswith("accepted_"))
    assert counted == sum(accepted)
    assert value(acceptance.accepted_mean, t) == pytest.approx(sum(accepted) / len(rows))

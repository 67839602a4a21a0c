"""Every evidence column against a direct computation in numpy from the tables."""

import numpy as np
import pytest
import torch

from specbench.core.request import Sampling
from specbench.core.trace import Evidence
from specbench.decoding.emitted import NO_DRAFT, Emitted
from specbench.decoding.evidence import record
from specbench.decoding.rows import TargetRows
from specbench.drafters.none import NoDrafter
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH
from tests.tables import PlannedDrafter, decode, random_table, table_draft
from tests.toys import request

pytestmark = pytest.mark.usefixtures("one_thread")

V, K, COUNT = 7, 3, 20
TARGET, DRAFT = random_table(11, V), random_table(12, V)
SAMPLED = (
    "log_target",
    "log_draft",
    "entropy",
    "entropy_variance",
    "sum_squares",
    "pit_low",
    "pit_width",
    "overlap",
    "overlap_lenient",
    "draft_top_target",
    "draft_top_hit",
    "target_top",
    "target_top_hit",
)


def plan(tokens):
    return [(tokens[-1] + 1) % V, tokens[0] % V, 2]


def one_hot(token):
    return np.eye(V)[token]


def softmax(logits, temperature):
    scaled = np.array(logits, dtype=np.float64) / temperature
    weights = np.exp(scaled - scaled.max())
    return weights / weights.sum()


def expected_columns(p, q, token):
    """The row of ``token`` under target ``p``; ``q`` is None where nothing was drafted."""
    safe = np.where(p > 0, p, 1.0)
    entropy = -(p * np.log(safe)).sum()
    key = p if q is None else q / p
    order = sorted(range(V), key=lambda x: (-key[x], x))
    low = sum(p[x] for x in order[: order.index(token)])
    row = {
        "log_target": np.log(p[token]),
        "entropy": entropy,
        "entropy_variance": (p * np.log(safe) ** 2).sum() - entropy**2,
        "sum_squares": (p**2).sum(),
        "pit_low": low,
        "pit_width": p[token],
        "log_draft": None,
        "target_top": p.max(),
        "target_top_hit": int(p.argmax() == token),
        "overlap": None,
        "overlap_lenient": None,
        "draft_top_target": None,
        "draft_top_hit": None,
    }
    if q is not None:
        top = int(q.argmax())
        row |= {
            "log_draft": np.log(q[token]) if q[token] > 0 else None,
            "overlap": np.minimum(p, q).sum(),
            "overlap_lenient": np.minimum(p / 0.5, q).sum(),
            "draft_top_target": p[top],
            "draft_top_hit": int(top == token),
        }
    return row


def places(trace):
    """(output position, offset in its step, drafts of the step, tokens before the step)."""
    yield 0, 0, 0, 0
    done = 1
    for verified, committed in zip(trace.steps.verified, trace.steps.committed, strict=True):
        for offset in range(committed):
            yield done + offset, offset, verified, done
        done += committed


def check(row, law_of):
    asked, trace = row.request, row.trace
    evidence = trace.evidence
    assert len(evidence) == len(trace.output_ids)
    kinds = set()
    for position, offset, drafts, before in places(trace):
        context = [*asked.token_ids, *trace.output_ids[:position]]
        p = softmax(TARGET(tuple(context)), asked.sampling.temperature)
        start = [*asked.token_ids, *trace.output_ids[:before]]
        q = law_of(context, start, offset) if offset < drafts else None
        kinds.add(q is None)
        assert evidence.drafted[position] == int(q is not None)
        expected = expected_columns(p, q, trace.output_ids[position])
        for name in SAMPLED:
            got = getattr(evidence, name)[position]
            if expected[name] is None:
                assert got is None, (name, position)
            else:
                assert got == pytest.approx(expected[name], abs=2e-5), (name, position)
        assert evidence.margin[position] is None
        assert evidence.runner_up[position] is None
    return kinds


def asked(temperature):
    return [request([s, 1], COUNT, temperature=temperature, seed=s) for s in range(4)]


@pytest.mark.parametrize("rule", [REJECTION, TARGET_MATCH])
@pytest.mark.parametrize("temperature", [0.6, 1.0])
def test_dense_laws(rule, temperature):
    for row in decode(asked(temperature), TARGET, table_draft(DRAFT, V), rule, K):
        kinds = check(row, lambda context, start, n: softmax(DRAFT(tuple(context)), temperature))
        assert kinds == {True, False}


@pytest.mark.parametrize("rule", [REJECTION, TARGET_MATCH])
def test_one_hot_laws(rule):
    drafter_of = lambda pool: PlannedDrafter(plan)  # noqa: E731
    for row in decode(asked(1.0), TARGET, drafter_of, rule, K):
        check(row, lambda context, start, n: one_hot(plan(start)[n]))


def test_without_a_draft():
    for row in decode(asked(0.8), TARGET, lambda pool: NoDrafter(), TARGET_MATCH, 0):
        assert check(row, None) == {True}


def test_overlap_is_the_chance_of_acceptance():
    # ALGORITHMS 1.1: p = (.5, .3, .2), q = (.2, .5, .3) give alpha = .7.
    p, q = np.log([0.5, 0.3, 0.2]), np.log([0.2, 0.5, 0.3])
    (row,) = decode(
        [request([0], 9, temperature=1.0)], lambda t: p, table_draft(lambda t: q, 3), REJECTION, 2
    )
    alphas = [value for value in row.trace.evidence.overlap if value is not None]
    assert len(alphas) >= 4
    assert alphas == pytest.approx([0.7] * len(alphas), abs=1e-6)


def test_truncated_laws_give_no_infinities():
    settings = {"temperature": 1.0, "top_k": 2}
    rows = decode([request([1], COUNT, **settings)], TARGET, table_draft(DRAFT, V), REJECTION, K)
    evidence = rows[0].trace.evidence
    numbers = [v for name in SAMPLED for v in getattr(evidence, name) if v is not None]
    assert np.isfinite(numbers).all()
    # A recovered token may be one that the truncated draft could not give.
    assert any(d and v is None for d, v in zip(evidence.drafted, evidence.log_draft, strict=True))


@pytest.mark.parametrize(
    "settings", [{"temperature": 0.6}, {"temperature": 1.0, "top_k": 3}, {"temperature": 1.0}]
)
def test_the_untempered_probability_is_kept_where_it_differs(settings):
    rows = decode([request([1], COUNT, **settings)], TARGET, table_draft(DRAFT, V), REJECTION, K)
    trace = rows[0].trace
    for position, token in enumerate(trace.output_ids):
        found = trace.evidence.log_untempered[position]
        if settings == {"temperature": 1.0}:
            assert found is None
        else:
            raw = softmax(TARGET((1, *trace.output_ids[:position])), 1.0)
            assert found == pytest.approx(np.log(raw[token]), abs=2e-5)
    assert trace.evidence.support_margin == [None] * len(trace.output_ids)


@pytest.mark.parametrize(
    ("logits", "settings", "margin"),
    [
        # Token 2 lies 1.5 below the k-th logit, at T = 0.5.
        ([2.0, 1.0, -0.5], {"temperature": 0.5, "top_k": 2}, -1.5 / 0.5),
        # Probabilities .6 .3 .1: min-p cuts below .4 * .6 = .24.
        (np.log([0.6, 0.3, 0.1]), {"temperature": 1.0, "min_p": 0.4}, np.log(0.1 / 0.24)),
        # The mass before token 2 is .9, .2 beyond top-p, and moves by .9 * .1 per nat.
        (np.log([0.6, 0.3, 0.1]), {"temperature": 1.0, "top_p": 0.7}, (0.7 - 0.9) / (0.9 * 0.1)),
        # After top-k 2 the mass before token 1 is 2/3; it is cut at top-p .5.
        (np.log([0.6, 0.1, 0.3]), {"temperature": 1.0, "top_k": 2, "top_p": 0.5}, None),
    ],
)
def test_a_token_outside_the_support_says_how_far(logits, settings, margin):
    rows = TargetRows(
        torch.tensor(np.array([logits]), dtype=torch.float32),
        torch.tensor([[0]]),
        [Sampling(**settings)],
    )
    evidence = Evidence()
    record([evidence], Emitted([0], [0], [2], [0], [NO_DRAFT]), rows, None)
    if margin is None:
        margin = (0.5 - 2 / 3) / (2 / 3 / 3)
    assert evidence.log_target == [None]
    assert evidence.support_margin == [pytest.approx(margin, rel=1e-5)]


def test_a_rule_without_siblings_is_priced_for_every_request():
    """The law [1, 0, 0] against [.5, .3, .2] is .5 away; nobody says who tried several tokens."""
    rows = TargetRows(
        torch.tensor(np.log([[0.5, 0.3, 0.2]]), dtype=torch.float32),
        torch.tensor([[0]]),
        [Sampling(1.0)],
    )
    evidence, emitted = Evidence(), Emitted([0], [0], [0], [0], [NO_DRAFT])
    record([evidence], emitted, rows, None, lambda *_: torch.tensor([[1.0, 0.0, 0.0]]))
    assert evidence.rule_tv == [pytest.approx(0.5, abs=1e-6)]


def test_greedy_rows_record_margin_and_runner_up_alone():
    rows = decode([request([3], COUNT)], TARGET, table_draft(DRAFT, V), REJECTION, K)
    trace = rows[0].trace
    for position, token in enumerate(trace.output_ids):
        logits = np.array(TARGET((3, *trace.output_ids[:position])))
        order = np.argsort(-logits)
        assert token == order[0]
        assert trace.evidence.runner_up[position] == order[1]
        assert trace.evidence.margin[position] == pytest.approx(
            logits[order[0]] - logits[order[1]], abs=1e-5
        )
    assert trace.evidence.target_top_hit == [1] * len(trace.output_ids)
    unknown = [name for name in SAMPLED if name != "target_top_hit"]
    assert all(v is None for name in unknown for v in getattr(trace.evidence, name))


def test_a_mixed_batch_records_each_row_as_alone():
    mixed = [request([s, 1], COUNT, temperature=t, seed=s) for s, t in [(0, 0.0), (1, 0.7)]]
    together = decode(mixed, TARGET, table_draft(DRAFT, V), REJECTION, K)
    for one, row in zip(mixed, together, strict=True):
        (alone,) = decode([one], TARGET, table_draft(DRAFT, V), REJECTION, K)
        assert alone.trace.evidence == row.trace.evidence

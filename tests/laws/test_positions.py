"""Fixed positions: their evidence is that of decoding, their tokens follow the rule's law."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from scipy import stats

from specbench.core.request import RequestKey, Sampling
from specbench.core.trace import Evidence, Granularity, Trace
from specbench.decoding.emitted import Emitted
from specbench.decoding.evidence import record
from specbench.decoding.laws import DenseLaws, OneHotLaws
from specbench.decoding.rows import TargetRows
from specbench.fidelity.columns import Columns, columns
from specbench.laws.positions import Positions, random_positions
from specbench.verify.lenient import RULE as LENIENT
from specbench.verify.rejection import RULE as REJECTION
from specbench.verify.target_match import RULE as TARGET_MATCH

pytestmark = pytest.mark.usefixtures("one_thread")

COUNT, V = 60, 12
SETTINGS = {
    "temperature": Sampling(0.7),
    "nothing": Sampling(1.0),
    "top-p": Sampling(0.7, top_p=0.7),
    "top-k": Sampling(1.0, top_k=4),
}


def made(sampling, sampled, seed=3):
    """Positions whose draft knows nothing of the target's truncation, so that it leaves it."""
    generator = np.random.default_rng(seed)
    found = random_positions(COUNT, V, sampling, 2.0, 0.8, generator, sampled)
    noise = torch.from_numpy(generator.normal(size=(COUNT, V))).float()
    return replace(found, draft=torch.softmax(found.logits + noise, 1))


def decoded(positions, tokens):
    """The same tokens through the evidence of decoding, each as a step of its own request."""
    count = len(positions.logits)
    rows = TargetRows(positions.logits, torch.arange(count)[:, None], [positions.sampling] * count)
    laws = DenseLaws(positions.draft[:, None]) if positions.sampled else OneHotLaws()
    first = positions.draft.argmax(1).tolist()
    numbers = list(range(count))
    into = [Evidence() for _ in numbers]
    emitted = Emitted(numbers, numbers, tokens.tolist(), [0] * count, first)
    record(into, emitted, rows, laws)
    traces = [
        Trace(
            RequestKey("suite", f"p{i:05}", 0, positions.sampling.temperature, 0),
            *("arm", 1, "", Granularity.STEP, i, 1, "", 0),
            output_ids=[int(token)],
            evidence=evidence,
        )
        for i, (token, evidence) in enumerate(zip(tokens, into, strict=True))
    ]
    return columns(traces)


@pytest.mark.parametrize("sampled", [True, False], ids=["sampled draft", "argmax draft"])
@pytest.mark.parametrize("name", SETTINGS)
def test_columns_are_the_evidence_of_decoding(name, sampled):
    positions = made(SETTINGS[name], sampled)
    generator = np.random.default_rng(5)
    # Any token, whether some rule would emit it or not.
    tokens = torch.from_numpy(generator.integers(0, V, COUNT))
    found, wanted = positions.columns(tokens, generator), decoded(positions, tokens)
    for name in (f.name for f in fields(Columns)):
        if name in ("uniform", "support_margin"):
            continue
        ours, theirs = getattr(found, name), getattr(wanted, name)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, err_msg=name)
    truncated = not positions.sampling.untruncated
    assert found.outside.any() == truncated
    # How far a token lies outside is left out: such a token always counts.
    np.testing.assert_array_equal(np.isnan(found.support_margin), ~wanted.outside)
    np.testing.assert_array_equal(np.isnan(wanted.support_margin), ~wanted.outside)
    assert np.all(found.support_margin[found.outside] == -np.inf)
    assert np.all((found.uniform >= 0) & (found.uniform < 1))


def test_columns_of_one_position_by_hand():
    target, draft = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    positions = Positions(
        torch.tensor(np.log(target)).float()[None], torch.tensor(draft).float()[None],
        Sampling(1.0), sampled=True,
    )  # fmt: skip
    found = positions.columns(torch.tensor([1]), np.random.default_rng(0))
    entropy = -(target * np.log(target)).sum()
    # Draft/target is 0.4, 2/3 and 3: token 2 comes first, then 1.
    expected = {
        "drafted": True,
        "log_target": np.log(0.3),
        "log_draft": np.log(0.2),
        "entropy": entropy,
        "entropy_variance": (target * np.log(target) ** 2).sum() - entropy**2,
        "sum_squares": 0.38,
        "pit_low": 0.2,
        "pit_width": 0.3,
        "overlap_lenient": 0.2 + 0.2 + 0.4,
        "draft_top_target": 0.2,
        "draft_top_hit": 0.0,
        "target_top": 0.5,
        "target_top_hit": 0.0,
    }
    for name, value in expected.items():
        assert getattr(found, name)[0] == pytest.approx(value, rel=1e-6), name
    assert np.isnan(found.log_untempered[0])


TARGET = np.array([0.35, 0.3, 0.15, 0.1, 0.07, 0.03])
DRAFT = np.array([0.1, 0.45, 0.05, 0.2, 0.1, 0.1])
REPEATS = 20_000


WHOLE = Sampling(1.0)


def repeated(sampled, sampling=WHOLE):
    logits = torch.tensor(np.log(TARGET)).float().expand(REPEATS, -1)
    draft = torch.tensor(DRAFT).float().expand(REPEATS, -1)
    return Positions(logits, draft, sampling, sampled)


def p_value(tokens, law):
    counts = np.bincount(tokens.numpy(), minlength=len(law))
    kept = law > 0
    assert counts[~kept].sum() == 0
    return stats.chisquare(counts[kept], REPEATS * law[kept]).pvalue


@pytest.mark.parametrize("sampled", [True, False], ids=["sampled draft", "argmax draft"])
@pytest.mark.parametrize("rule", [REJECTION, TARGET_MATCH], ids=["rejection", "target_match"])
def test_lossless_rules_emit_the_target(rule, sampled):
    tokens = repeated(sampled).emit(rule, np.random.default_rng(1))
    assert tokens.dtype == torch.int64
    assert p_value(tokens, TARGET) > 1e-3


def test_truncation_and_temperature_are_those_of_the_setting():
    # 0.35 + 0.3 + 0.15 reaches 0.8, so that three tokens are kept.
    nucleus = np.where(TARGET >= 0.15, TARGET, 0.0) / 0.8
    positions = repeated(True, Sampling(1.0, top_p=0.79))
    assert p_value(positions.emit(REJECTION, np.random.default_rng(2)), nucleus) > 1e-3
    # Settings really applied may differ from the declared ones: that is how a defect is planted.
    ignored = positions.emit(REJECTION, np.random.default_rng(2), sampling=WHOLE)
    assert p_value(ignored, TARGET) > 1e-3
    cold = TARGET**2 / (TARGET**2).sum()
    tokens = repeated(True, Sampling(0.5)).emit(REJECTION, np.random.default_rng(3))
    assert p_value(tokens, cold) > 1e-3


def test_a_lenient_rule_emits_its_published_law_and_not_the_target():
    lenience = 0.5
    accepted = np.minimum(DRAFT, TARGET / lenience)
    left_over = np.maximum(TARGET - lenience * DRAFT, 0.0)
    law = accepted + (1 - accepted.sum()) * left_over / left_over.sum()
    rule = LENIENT.configure({"lenience": lenience})
    tokens = repeated(True).emit(rule, np.random.default_rng(4))
    assert p_value(tokens, law) > 1e-3
    assert p_value(tokens, TARGET) < 1e-6


def test_a_lie_about_the_draft_shows_in_the_output():
    positions = repeated(True)
    # An argmax draft judged as if it had been drawn: token 1 is always proposed and accepted with
    # 0.3 / 0.45; the residual is that of the softmax.
    residual = np.maximum(TARGET - DRAFT, 0.0)
    law = np.eye(6)[1] * 2 / 3 + residual / residual.sum() / 3
    laws = DenseLaws(positions.draft[:, None])
    tokens = positions.emit(REJECTION, np.random.default_rng(5), laws=laws, sampled=False)
    assert p_value(tokens, law) > 1e-3
    assert p_value(tokens, TARGET) < 1e-6


def test_random_positions_have_the_spread_and_noise_they_are_asked_for():
    made = random_positions(4000, 16, Sampling(1.0), 2.0, 0.5, np.random.default_rng(6))
    assert made.logits.std() == pytest.approx(2.0, rel=0.02)
    seen = made.draft.log() - made.draft.log().mean(1, keepdim=True)
    noise = seen - (made.logits - made.logits.mean(1, keepdim=True))
    assert noise.std() == pytest.approx(0.5, rel=0.05)
    assert made.sampled
    same = random_positions(4000, 16, Sampling(1.0), 2.0, 0.5, np.random.default_rng(6))
    assert torch.equal(made.draft, same.draft)

"""Samplers that draw their own numbers: level, power, and no pass that could not have failed."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from scipy import stats

from specbench.laws.adapters import CountsSampler, GeneratorSampler
from specbench.laws.counting import counts_outcomes
from specbench.laws.frequencies import Context, chi_square, impossible, leak
from specbench.laws.outcome import Status
from specbench.laws.sampled import generator_outcomes
from specbench.laws.sequential import ALPHA, Watch, watched
from specbench.laws.streams import Noise, streams
from specbench.laws.tables import SAMPLED, LawTable, everywhere
from tests.laws import samplers

CPU = torch.device("cpu")
RIGHT = GeneratorSampler(samplers.from_generator, CPU)
TWO = LawTable("", everywhere([0.6, 0.4]), everywhere([0.3, 0.7]), True, 1)


def by_case(found):
    return {o.case: o for o in found}


def test_a_right_sampler_passes_and_says_what_it_would_have_caught():
    found = list(generator_outcomes("mine", RIGHT, 100_000, seed=1))
    assert {o.status for o in found} == {Status.PASSED}
    for outcome in found:
        if outcome.check == "law":
            assert 0 < outcome.detectable < 0.02
            assert "would have caught" in outcome.detail


def test_a_lossy_sampler_is_convicted_early():
    sampler = GeneratorSampler(samplers.lenient_from_generator, CPU)
    found = by_case(generator_outcomes("mine", sampler, 200_000, seed=1))
    outcome = found["three tokens, K=3"]
    assert outcome.status is Status.FAILED
    assert int(outcome.detail.split()[0]) < 50_000
    assert found["residual from the target"].status is Status.NOT_APPLICABLE


def test_numbers_from_elsewhere_leave_noise_defects_untested():
    sampler = GeneratorSampler(samplers.from_elsewhere, CPU)
    found = by_case(generator_outcomes("mine", sampler, 20_000, seed=1))
    assert found["three tokens, K=3"].status is Status.PASSED
    repeated = found["noise repeated every round"]
    assert repeated.status is Status.NOT_APPLICABLE
    assert "not its generator's" in repeated.detail


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        (lambda p, q, ids, g: samplers.from_generator(p, q, ids.clamp(min=0), g), "counted"),
        (lambda p, q, ids, g: (ids, None), "returned tuple"),
        (lambda p, q, ids, g: p, "int64 or int32"),
    ],
)
def test_what_is_broken_is_told(sampler, words):
    found = generator_outcomes("mine", GeneratorSampler(sampler, CPU), 5000, seed=1)
    failed = [o.detail for o in found if o.status is Status.FAILED]
    assert failed
    assert any(words in detail for detail in failed)


def test_too_few_samples_do_not_pass():
    assert watched(RIGHT, SAMPLED[0], 5, 1, CPU).status is Status.TOO_FEW


def test_an_impossible_token_convicts_at_once():
    def always_zero(given, generator):
        tokens = torch.full((len(given.ids), given.k + 1), -1)
        tokens[:, 0] = 0
        return tokens

    found = watched(always_zero, SAMPLED[0], 100_000, 1, CPU)
    assert found.status is Status.FAILED
    assert "probability 0" in found.detail


def test_repeated_noise_is_seen_over_rounds():
    assert watched(RIGHT, SAMPLED[1], 50_000, 1, CPU, Noise.REPEATED).status is Status.FAILED


def test_every_emitted_token_is_counted_in_its_context():
    """The history is rebuilt from the sampler's outputs, stream by stream."""
    outputs = []

    def remember(given, generator):
        tokens = samplers.from_generator(
            given.target[given.position], given.draft[given.source], given.ids, generator
        )
        outputs.append(tokens)
        return tokens

    table = SAMPLED[1]
    total = sum(streams(remember, table, 60, 3, CPU, Noise.FRESH))
    expected = torch.zeros(3, 4, 4, 4, dtype=torch.int64)
    for stream in range(len(outputs[0])):
        history = [stream % 4, stream % 4]
        for tokens in outputs:
            for place, token in enumerate(t for t in tokens[stream].tolist() if t >= 0):
                expected[place, history[-2], history[-1], token] += 1
                history.append(token)
    assert torch.equal(total, expected)


def test_the_e_value_is_a_martingale():
    """Its mean over all sequences of the target is exactly 1, by enumeration."""
    mean = 0.0
    for path in product(range(2), repeat=4):
        chance = math.prod([0.6, 0.4][token] for token in path)
        watch = Watch(TWO)
        for before, token in zip((0, *path), path, strict=False):
            one = torch.zeros(2, 2, 2, 2, dtype=torch.int64)
            one[0, 0, before, token] = 1
            watch.add(one)
        mean += chance * math.exp(watch.log_e)
    assert mean == pytest.approx(1.0, abs=1e-6)


def test_chi_square_by_hand():
    context = Context(np.array([30.0, 20.0]), np.array([0.5, 0.5]), np.array([1.0, 0.0]))
    found = chi_square([context], 0.01)
    assert found.statistic == pytest.approx(2.0)
    assert (found.freedom, found.n) == (1, 50)
    assert found.p == pytest.approx(stats.chisquare([30, 20]).pvalue)
    assert found.off == pytest.approx(0.1)


def test_small_bins_are_merged():
    target = np.array([0.5, 0.47, 0.02, 0.01])
    context = Context(np.array([55.0, 41.0, 3.0, 1.0]), target, leak(target, target))
    found = chi_square([context], 0.01)
    # Three expected tokens are too few for a bin: they join the smaller large one.
    merged = stats.chisquare([55, 45], [50, 50])
    assert (found.freedom, found.statistic) == (1, pytest.approx(merged.statistic))


def test_contexts_that_can_only_give_one_token_do_not_count():
    target = np.array([1.0, 0.0])
    context = Context(np.array([50.0, 0.0]), target, leak(target, target))
    assert chi_square([context], 0.01).detectable == math.inf
    assert impossible([context]) == 0
    assert impossible([Context(np.array([49.0, 1.0]), target, target)]) == 1


def test_chi_square_keeps_its_level_and_its_promise():
    """Rejections at alpha under the target, and at least about 90 % at the detectable distance."""
    alpha, n, runs = 0.01, 400, 600
    target, draft = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.5, 0.3])
    leaked = leak(target, draft)
    generator = np.random.default_rng(7)

    def rejected(law):
        counts = generator.multinomial(n, law, size=runs).astype(float)
        return sum(chi_square([Context(c, target, leaked)], alpha).p < alpha for c in counts)

    assert rejected(target) <= stats.binom.isf(1e-5, runs, alpha)
    counts = n * target
    detectable = chi_square([Context(counts, target, leaked)], alpha).detectable
    share = detectable / (np.abs(leaked - target).sum() / 2)
    assert 0.85 < rejected((1 - share) * target + share * leaked) / runs < 0.95


@pytest.mark.parametrize(
    ("function", "status"),
    [(samplers.counts, Status.PASSED), (samplers.lenient_counts, Status.FAILED)],
)
def test_counts(function, status):
    found = by_case(counts_outcomes("mine", CountsSampler(function, CPU), 50_000, seed=1))
    assert found["four tokens, K=2"].status is status
    keyed = found.pop("noise keyed by position")
    assert keyed.status is Status.NOT_APPLICABLE
    if status is Status.PASSED:
        assert {o.status for o in found.values()} == {Status.PASSED}


def test_counts_of_too_few_rounds_do_not_pass():
    found = by_case(counts_outcomes("mine", CountsSampler(samplers.counts, CPU), 20, seed=1))
    assert found["six random tokens, K=1"].status is Status.TOO_FEW


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (lambda p, q, n, seed: torch.zeros(p.shape, dtype=torch.int64), "first tokens"),
        (lambda p, q, n, seed: torch.full(p.shape, -1), "first tokens"),
        (lambda p, q, n, seed: p, "counts are int64"),
    ],
)
def test_counts_that_cannot_be(counts, words):
    found = counts_outcomes("mine", CountsSampler(counts, CPU), 100, seed=1)
    assert words in next(found).detail


def test_alpha_leaves_continuous_integration_alone():
    """ALGORITHMS 6.5."""
    assert ALPHA <= 1e-6

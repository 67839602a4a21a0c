"""Two-sample tests on whole outputs: exact values, level, power, and what could not have failed."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from specbench.fidelity.hamming import hamming_kernel, mmd_terms
from specbench.fidelity.outcomes import first_token_terms, length_terms
from specbench.fidelity.relabel import Relabelling, Statistic
from specbench.fidelity.replaced import detectable_share
from specbench.fidelity.sample_verdict import Outcome
from specbench.fidelity.sequence import same_vs_same, two_sample

VOCABULARY, LENGTH = 12, 10


def laws(prompts):
    """Peaked laws, one per prompt and position, shape (prompts, LENGTH, VOCABULARY)."""
    rng = np.random.default_rng(5)
    return rng.dirichlet(np.full(VOCABULARY, 0.3), size=(prompts, LENGTH))


def draw(rng, prompts, m):
    """m outputs per prompt, of 4 to LENGTH tokens."""
    found = {}
    for prompt, law in enumerate(laws(prompts).cumsum(axis=2)):
        ids = (rng.random((m, LENGTH, 1)) > law).sum(axis=2)
        sizes = rng.integers(4, LENGTH + 1, m)
        found[str(prompt)] = [row[:size].tolist() for row, size in zip(ids, sizes, strict=True)]
    return found


def spoil(rng, samples, share, output):
    """Replace each output with probability ``share``."""
    return {
        prompt: [output(prompt) if rng.random() < share else own for own in outputs]
        for prompt, outputs in samples.items()
    }


def named(found):
    return {test.name: test for test in found.tests}


def likeness(x, y, length):
    """The kernel, position by position: ended outputs go on with a symbol of their own."""
    x, y = ([*ids, *["end"] * (length - len(ids))] for ids in (x, y))
    return sum(a == b for a, b in zip(x, y, strict=True)) / length


def mmd(xs, ys, length):
    """Unbiased MMD^2 by loops over pairs."""

    def inside(group):
        pairs = list(combinations(group, 2))
        return sum(likeness(x, y, length) for x, y in pairs) / len(pairs)

    across = sum(likeness(x, y, length) for x in xs for y in ys) / (len(xs) * len(ys))
    return inside(xs) + inside(ys) - 2 * across


def test_kernel_by_hand():
    # 1 2 3 - against 1 5 - -: positions 0 and 3 agree; against the empty output: position 3.
    kernel = hamming_kernel([[1, 2, 3], [1, 5], []], 4)
    assert kernel == pytest.approx(
        np.array([[1, 0.5, 0.25], [0.5, 1, 0.5], [0.25, 0.5, 1]]), abs=1e-15
    )
    assert (hamming_kernel([[], []], 0) == 1).all()


def test_statistics_against_independent_ones_with_unequal_groups():
    rng = np.random.default_rng(0)
    arm, reference = draw(rng, 3, 5), draw(rng, 3, 7)
    reference["1"] = reference["1"][:3]
    arm["2"][0] = []
    ends = [{p: [len(x) < 8 for x in s[p]] for p in s} for s in (arm, reference)]
    found = named(two_sample(arm, reference, seed=0, arm_ended=ends[0], reference_ended=ends[1]))
    expected = {name: [] for name in found}
    for prompt, outputs in arm.items():
        others = reference[prompt]
        expected["mmd"].append(mmd(outputs, others, LENGTH))
        first = [[x[0] if x else -1 for x in group] for group in (outputs, others)]
        table = [[group.count(token) for token in {*first[0], *first[1]}] for group in first]
        expected["first_token"].append(stats.chi2_contingency(table, correction=False).statistic)
        sizes = [[len(x) for x in group] for group in (outputs, others)]
        expected["length"].append(stats.ks_2samp(*sizes).statistic)
        rates = [np.mean(flags[prompt]) for flags in ends]
        expected["eos_rate"].append(rates[0] - rates[1])
    for name, test in found.items():
        value = np.mean(expected[name])
        assert test.statistic == pytest.approx(abs(value) if name == "eos_rate" else value)
        assert (test.prompts, test.n_arm, test.n_reference) == (3, 15, 17)


def test_p_against_full_enumeration():
    rng = np.random.default_rng(8)
    arm, reference = draw(rng, 1, 4), draw(rng, 1, 3)
    pool = arm["0"] + reference["0"]
    values = []
    for chosen in combinations(range(7), 4):
        rest = [i for i in range(7) if i not in chosen]
        values.append(mmd([pool[i] for i in chosen], [pool[i] for i in rest], LENGTH))
    exact = np.mean(np.array(values) >= values[0] - 1e-12)
    relabelling = Relabelling([(4, 3)], 9999, seed=1)
    statistic = Statistic("mmd", (mmd_terms(hamming_kernel(pool, LENGTH)),))
    observed, p = relabelling.test(statistic)
    assert observed == pytest.approx(values[0])
    assert 0.05 < exact < 0.95
    assert p == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 9999))


def test_p_by_hand():
    # 3 against 3, all alike inside and different across: 2 of the 20 labellings are as extreme.
    found = named(two_sample({"a": [[1]] * 3}, {"a": [[2]] * 3}, seed=0, alpha=0.5))
    assert found["mmd"].statistic == pytest.approx(2.0)
    assert found["first_token"].statistic == pytest.approx(6.0)
    for name in ("mmd", "first_token"):
        assert found[name].p == pytest.approx(0.1, abs=4 * math.sqrt(0.1 * 0.9 / 1999))
    assert (found["length"].statistic, found["length"].p) == (0.0, 1.0)


def test_smallest_p_counts_labellings():
    rng = np.random.default_rng(2)
    kernels = [rng.random((4, 4)), rng.random((5, 5))]
    terms = [mmd_terms(k + k.T) for k in kernels]
    totals = []
    for first in combinations(range(4), 2):
        for second in combinations(range(5), 2):
            arms = [np.isin(np.arange(n), c)[None] for n, c in ((4, first), (5, second))]
            parts = [t(a, np.ones_like(a))[0] for t, a in zip(terms, arms, strict=True)]
            totals.append(sum(parts))
    relabelling = Relabelling([(2, 2), (2, 3)], 10_000, seed=0)
    largest = np.mean(np.array(totals) >= max(totals) - 1e-12)
    assert relabelling.smallest_p(Statistic("mmd", tuple(terms))) == pytest.approx(largest)
    assert relabelling.smallest_p(Statistic("signed", tuple(terms), signed=True)) == pytest.approx(
        1 / 60
    )
    few = Relabelling([(20, 20)] * 500, 99, seed=0)
    assert few.smallest_p(Statistic("many", tuple(terms) * 250)) == 0.01


def test_holm_over_the_tests_that_can_fail():
    rng = np.random.default_rng(1)
    found = two_sample(draw(rng, 4, 6), draw(rng, 4, 6), seed=3)
    ranked = sorted(found.tests, key=lambda test: test.p)
    running = 0.0
    for factor, test in zip((3, 2, 1), ranked, strict=True):
        running = max(running, min(1.0, factor * test.p))
        assert test.adjusted == pytest.approx(running)
    # Single outputs leave only the rate of ends: it alone counts, uncorrected.
    one = [{str(p): [[p]] for p in range(12)} for _ in range(2)]
    flags = [{p: [value] for p in one[0]} for value in (True, False)]
    found = two_sample(*one, seed=0, arm_ended=flags[0], reference_ended=flags[1])
    assert [test.outcome for test in found.tests] == [Outcome.TOO_FEW] * 3 + [Outcome.FAILED]
    assert found.tests[3].adjusted == found.tests[3].p


def test_the_level_holds():
    rejected = dict.fromkeys(("mmd", "first_token", "length"), 0)
    failed = 0
    for seed in range(300):
        found = same_vs_same(draw(np.random.default_rng(seed), 2, 8), seed=seed, permutations=99)
        failed += found.outcome is Outcome.FAILED
        for test in found.tests:
            rejected[test.name] += test.p <= 0.05
    most = stats.binom.ppf(0.999, 300, 0.05)
    assert failed <= most
    assert max(rejected.values()) <= most
    assert rejected["mmd"] >= stats.binom.ppf(0.001, 300, 0.05)


TERMS = {
    "mmd": lambda pool: mmd_terms(hamming_kernel(pool, LENGTH + 1)),
    "first_token": first_token_terms,
    "length": length_terms,
}


@pytest.mark.parametrize("name", TERMS)
def test_power_at_the_detectable_share(name):
    rng = np.random.default_rng(9)
    share = named(two_sample(draw(rng, 6, 8), draw(rng, 6, 8), seed=1))[name].detectable
    fresh = iter(range(10**6, 10**9))

    def unrelated(prompt):
        return [next(fresh) for _ in range(LENGTH + 1)]

    caught = 0
    for seed in range(80):
        rng = np.random.default_rng([4, seed])
        arm, reference = spoil(rng, draw(rng, 6, 8), share, unrelated), draw(rng, 6, 8)
        terms = tuple(TERMS[name](arm[prompt] + reference[prompt]) for prompt in arm)
        _, p = Relabelling([(8, 8)] * 6, 499, seed).test(Statistic(name, terms))
        caught += p <= 0.05 / 3
    low, high = stats.binom.ppf([0.001, 0.999], 80, [0.85, 0.97])
    assert low <= caught <= high


@pytest.mark.parametrize("name", TERMS)
def test_a_replaced_output_is_one_that_resembles_no_other(name):
    rng = np.random.default_rng(12)
    pool = draw(rng, 1, 7)["0"]
    terms = TERMS[name](pool)
    fresh = iter(range(10**6, 10**7))
    for _ in range(20):
        arm = rng.permutation(np.arange(7) < 3)[None]
        kept = rng.random((1, 7)) < 0.5
        outputs = [
            own if held else [next(fresh) for _ in range(LENGTH + 1)]
            for own, held in zip(pool, kept[0], strict=True)
        ]
        explicit = TERMS[name](outputs)(arm, np.ones_like(arm))
        assert terms(arm, kept) == pytest.approx(explicit, abs=1e-12)


def test_detectable_is_taken_at_the_level_of_the_family():
    rng = np.random.default_rng(1)
    arm, reference = draw(rng, 6, 6), draw(rng, 6, 6)
    found = named(two_sample(arm, reference, seed=3))["mmd"]
    longest = max(len(x) for s in (arm, reference) for outputs in s.values() for x in outputs)
    kernels = [hamming_kernel(arm[prompt] + reference[prompt], longest) for prompt in arm]
    statistic = Statistic("mmd", tuple(map(mmd_terms, kernels)))
    relabelling = Relabelling([(6, 6)] * 6, 1999, 3)
    assert found.detectable == detectable_share(relabelling, statistic, 0.05 / 3, 3)
    assert found.detectable > detectable_share(relabelling, statistic, 0.05, 3)


@pytest.mark.parametrize("ends", [True, False])
def test_a_changed_rate_of_ends_is_the_rarer_outcome(ends):
    same = {str(p): [[1, 2, 3]] * 6 for p in range(4)}
    flags = {prompt: [ends] * 6 for prompt in same}
    found = two_sample(same, same, seed=0, arm_ended=flags, reference_ended=flags)
    assert named(found)["eos_rate"].outcome is Outcome.PASSED


def test_a_planted_change_is_found():
    rng = np.random.default_rng(6)
    favourite = laws(12).argmax(axis=2)
    arm = spoil(rng, draw(rng, 12, 10), 0.6, lambda prompt: favourite[int(prompt)].tolist())
    found = two_sample(arm, draw(rng, 12, 10), seed=0)
    assert found.outcome is Outcome.FAILED
    assert named(found)["mmd"].outcome is Outcome.FAILED
    assert str(named(found)["mmd"]).startswith("mmd: FAILED, n=120+120 outputs of 12 prompts, p=")


def test_a_missed_stop_is_found_in_lengths_and_ends():
    rng = np.random.default_rng(7)
    arm, reference = draw(rng, 10, 8), draw(rng, 10, 8)
    arm = {p: [(x + [0] * LENGTH)[:LENGTH] for x in outputs] for p, outputs in arm.items()}
    ends = [{p: [len(x) < LENGTH for x in s[p]] for p in s} for s in (arm, reference)]
    found = named(two_sample(arm, reference, seed=0, arm_ended=ends[0], reference_ended=ends[1]))
    assert found["length"].outcome is Outcome.FAILED
    assert found["eos_rate"].outcome is Outcome.FAILED
    assert found["first_token"].outcome is Outcome.PASSED


def test_one_output_per_prompt_is_too_few():
    rng = np.random.default_rng(1)
    found = two_sample(draw(rng, 50, 1), draw(rng, 50, 1), seed=0)
    assert found.outcome is Outcome.TOO_FEW
    assert {test.p for test in found.tests} == {None}
    assert str(found.tests[0]) == (
        "mmd: too_few, n=0+0 outputs of 0 prompts, no prompt with several outputs"
    )


def test_so_few_labellings_that_nothing_can_fail():
    rng = np.random.default_rng(1)
    found = two_sample(draw(rng, 2, 2), draw(rng, 2, 2), seed=0)
    # 6 labellings per prompt, in pairs of equal value: (2/6)^2.
    assert [test.note for test in found.tests] == [
        "could not have failed: smallest possible p is 0.11"
    ] * 3
    assert found.outcome is Outcome.TOO_FEW


def test_outputs_without_anything_in_common_cannot_be_told_from_replaced_ones():
    fresh = iter(range(10**6))
    arm, reference = (
        {str(p): [[next(fresh) for _ in range(5)] for _ in range(6)] for p in range(6)}
        for _ in range(2)
    )
    found = named(two_sample(arm, reference, seed=0))
    for name in ("mmd", "first_token"):
        assert found[name].outcome is Outcome.TOO_FEW
        assert found[name].detectable is None
        assert found[name].note == "would have missed the loss of almost every output"
    assert found["length"].outcome is Outcome.PASSED


def test_equal_outputs_pass_because_others_would_have_failed():
    same = {str(p): [[1, 2, 3]] * 6 for p in range(4)}
    found = two_sample(same, same, seed=0)
    assert [test.p for test in found.tests] == [1.0] * 3
    assert found.outcome is Outcome.PASSED
    assert all(0 < test.detectable < 1 for test in found.tests)


def test_halves_keep_flags_with_their_prompts():
    samples = draw(np.random.default_rng(3), 6, 9)
    ended = {prompt: [int(prompt) % 2 == 0] * 9 for prompt in samples}
    found = same_vs_same(samples, seed=4, ended=ended)
    rate = named(found)["eos_rate"]
    assert (rate.statistic, rate.p) == (0.0, 1.0)
    assert (rate.n_arm, rate.n_reference) == (24, 30)
    assert found == same_vs_same(samples, seed=4, ended=ended)
    assert found != same_vs_same(samples, seed=5, ended=ended)


def test_unusable_input():
    empty = two_sample({}, {}, seed=0)
    assert (empty.outcome, empty.unpaired) == (Outcome.TOO_FEW, 0)
    samples = draw(np.random.default_rng(0), 3, 4)
    partly = two_sample(samples | {"x": []}, {"0": samples["0"], "y": [[1]]}, seed=0)
    assert partly.unpaired == 4
    assert partly.tests[0].prompts == 1
    flags = {prompt: [True] * 4 for prompt in samples}
    with pytest.raises(ValueError, match="prompt 1: 4 outputs but 0 end flags"):
        two_sample(samples, samples, seed=0, arm_ended=flags, reference_ended={"0": [True] * 4})

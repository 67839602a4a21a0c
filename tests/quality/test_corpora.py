import itertools
import math

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from specbench.quality.corpora import corpus
from specbench.quality.resample import SWAPS, resampled, swap_test
from specbench.quality.translation import bleu_scores, chrf_scores, segments

REFERENCES = ["the old house by the lake", "a cat sat on the mat", "我们明天去北京开会", "rain"]
ARM = ["the old house by a lake", "a cat sat on a mat today", "我们明天去上海开会", ""]
PLAIN = ["the house by the lake", "a cat sat on the mat", "他明天开会", "rain rain"]
LANGUAGES = ["en", "en", "zh", "en"]
ITEMS = ["a", "b", "c", "d"]


def public(texts, drawn, metric):
    """sacrebleu's own corpus score per language, languages weighted by their segments.

    ``drawn`` are indices into REFERENCES, one per text.
    """
    total = 0.0
    for language, tokenize in (("en", "13a"), ("zh", "zh")):
        rows = [row for row, index in enumerate(drawn) if LANGUAGES[index] == language]
        if rows:
            scorer = CHRF() if metric == "chrf" else BLEU(tokenize=tokenize, force=True)
            references = [[REFERENCES[drawn[row]] for row in rows]]
            total += len(rows) * scorer.corpus_score([texts[row] for row in rows], references).score
    return total / len(texts)


def made(texts, metric, references=REFERENCES, languages=LANGUAGES, items=ITEMS):
    found = segments(texts, references, languages)
    counts = [getattr(segment, metric) for segment in found]
    return corpus(counts, languages, items, chrf_scores if metric == "chrf" else bleu_scores)


@pytest.mark.parametrize("metric", ["chrf", "bleu"])
def test_resampled_corpora_are_those_of_sacrebleu(metric):
    arm, plain = made(ARM, metric), made(PLAIN, metric)
    weights = np.array([[1, 1, 1, 1], [2, 0, 1, 1], [0, 4, 0, 0], [0, 0, 3, 1]], dtype=float)
    for row, found in zip(weights, arm.difference(plain, weights), strict=True):
        drawn = [i for i, times in enumerate(row) for _ in range(int(times))]
        wanted = public([ARM[i] for i in drawn], drawn, metric)
        wanted -= public([PLAIN[i] for i in drawn], drawn, metric)
        assert found == pytest.approx(wanted)


@pytest.mark.parametrize("metric", ["chrf", "bleu"])
def test_swapped_arms_and_their_p_value(metric):
    arm, plain = made(ARM, metric), made(PLAIN, metric)
    swaps = list(itertools.product([0, 1], repeat=4))
    wanted = []
    for row in swaps:
        mine = [PLAIN[i] if swap else ARM[i] for i, swap in enumerate(row)]
        other = [ARM[i] if swap else PLAIN[i] for i, swap in enumerate(row)]
        wanted.append(public(mine, range(4), metric) - public(other, range(4), metric))
    assert arm.swapped(plain, np.array(swaps, dtype=float)) == pytest.approx(wanted)
    found = swap_test(lambda rows: arm.swapped(plain, rows), 4, seed=0)
    extreme = sum(abs(gap) >= abs(wanted[0]) - 1e-9 for gap in wanted)
    assert found.number() == pytest.approx(extreme / 16)
    assert (found.n, found.method) == (4, "arms swapped inside 4 items")


def test_answers_to_one_item_are_resampled_together():
    texts, references = [*ARM, *PLAIN], [*REFERENCES, *REFERENCES]
    found = made(texts, "chrf", references, LANGUAGES * 2, ITEMS * 2)
    assert found.answers.tolist() == [2.0] * 4
    assert found.scores(np.array([1.0, 0, 0, 0])) == pytest.approx(
        public([ARM[0], PLAIN[0]], [0, 0], "chrf")
    )


def test_interval_of_a_mean():
    values = np.random.default_rng(3).normal(10, 2, 60)
    found = resampled(lambda weights: weights @ values / 60, 60, seed=1, unit="points")
    half = 1.959964 * values.std() / np.sqrt(60)
    assert found.number() == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx(
        (values.mean() - half, values.mean() + half), abs=0.08
    )
    assert (found.n, found.level, found.unit) == (60, 0.95, "points")
    assert found.method == "bootstrap-percentile over 60 units"
    assert found == resampled(lambda weights: weights @ values / 60, 60, seed=1, unit="points")


def test_two_units_give_no_interval():
    found = resampled(lambda weights: weights.sum(axis=-1), 2, seed=1, unit="points")
    assert (found.number(), found.low, found.n) == (2.0, None, 2)
    assert found.method == "no interval: 2 independent units, 3 are needed"


def test_swaps_are_drawn_where_they_are_many():
    gaps = np.ones(20)
    found = swap_test(lambda swaps: (1 - 2 * swaps) @ gaps, 20, seed=1)
    assert found.number() == pytest.approx(1 / (SWAPS + 1))
    gaps = np.random.default_rng(2).normal(0, 1, 20)
    again = swap_test(lambda swaps: (1 - 2 * swaps) @ gaps, 20, seed=1)
    z = abs(gaps.sum()) / math.sqrt((gaps**2).sum())
    assert again.number() == pytest.approx(math.erfc(z / math.sqrt(2)), abs=0.03)

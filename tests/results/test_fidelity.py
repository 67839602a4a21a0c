"""Fidelity of cells: who is tested together, what is said of whom, and what is never claimed."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from specbench.core.manifest import ArmFactors, SuiteUse
from specbench.fidelity.greedy import Kind
from specbench.fidelity.verdict import NO_EVIDENCE, Status
from specbench.quality.measure import Quality
from specbench.results.cells import ALL_SUITES, Cell, cell_records, measure_cells
from specbench.results.fidelity import measure_fidelity
from specbench.results.read import Recorded, RecordId
from specbench.results.summarise import summarise_run
from specbench.results.summary import DETECTED, UNSEEN
from tests.fidelity.evident import coin, decoded, evidence, record, records
from tests.fidelity.simulated import cell, rows, speculate
from tests.metrics.traces import trace
from tests.results.records import IDENTITY, MANIFEST, SAMPLING

PLAIN = MANIFEST.arms[0]
STATES = {
    "exact": "proven",
    "loose": "lossy",
    "made_up": "meaningless",
    "promised": "claimed",
    "foreign": "unknown",
}
SUITES = ("code", "chat")


def manifest(temperatures=(0.0, 0.7), arms=("exact",), suites=("code",), **engine):
    factors = [ArmFactors(n, "ngram", 3, n, "scripted", lossless=STATES[n]) for n in arms]
    return replace(
        MANIFEST,
        identity=replace(
            IDENTITY, sampling=tuple({**SAMPLING, "temperature": t} for t in temperatures)
        ),
        arms=(PLAIN, *factors),
        suites=tuple(SuiteUse(s, "1", "sha256:1", "test", 2, 2, "x") for s in suites),
        engine=engine,
    )


def run(described, *traces):
    found = Recorded(described)
    for one in traces:
        found.traces[RecordId(one.key, one.arm, one.concurrency)] = one
    return found


def of_suite(suite, traces):
    for one in traces:
        one.key = replace(one.key, suite=suite)
        yield one


def judged(found, **options):
    return measure_fidelity(found.manifest, cell_records(found), **options)


def at(found, arm, temperature=0.7, suite="code", concurrency=1):
    return found[Cell(suite, temperature, concurrency, arm)]


def honest(seed, tokens=400, **defect):
    return cell(rows(seed, tokens), speculate, seed + 50, **defect)


def arm_records(arm, seed, tokens=400, size=100, **defect):
    return records(honest(seed, tokens, **defect), size, arm=arm)


def test_pooled_cells_and_single_suites_are_two_families():
    described = manifest((0.7,), ("exact", "loose"), SUITES)
    traces = [
        one
        for number, (arm, suite) in enumerate((a, s) for a in ("exact", "loose") for s in SUITES)
        for one in of_suite(suite, arm_records(arm, number))
    ]
    found = judged(run(described, *traces), alpha=0.02)
    assert {cell.suite for cell in found} == {"code", "chat", ALL_SUITES}

    def alphas(arm, suite):
        tests = at(found, arm, suite=suite).verdict.tests
        return {round(test.alpha, 12) for test in tests if test.name != "support"}

    # The two families share alpha. Plain holds no evidence here. Four tests each: pit, surprisal,
    # draft bias and e-process.
    for arm in ("exact", "loose"):
        assert alphas(arm, ALL_SUITES) == {round(0.02 / 2 / 2 / 4, 12)}
        for suite in SUITES:
            assert alphas(arm, suite) == {round(0.02 / 2 / 4 / 4, 12)}
        both = sum(at(found, arm, suite=suite).verdict.n for suite in SUITES)
        assert at(found, arm, suite=ALL_SUITES).verdict.n == both == 800


def test_one_suite_alone_is_one_family_and_categories_are_left_out():
    traces = [
        replace(one, category="xy"[index % 2])
        for arm in ("plain", "exact")
        for index, one in enumerate(arm_records(arm, 1))
    ]
    found = run(manifest((0.7,)), *traces)
    assert {cell.category for cell in cell_records(found)} == {"", "x", "y"}
    measured = judged(found, alpha=0.02)
    assert [(cell.suite, cell.category) for cell in measured] == [("code", ""), ("code", "")]
    tests = at(measured, "exact").verdict.tests
    assert {test.alpha for test in tests if test.name != "support"} == {0.02 / 2 / 4}


def test_a_defect_fails_its_own_cell_alone():
    described = manifest((0.7,), ("exact", "loose"))
    traces = [
        *arm_records("plain", 1, 2000),
        *arm_records("exact", 2, 2000, lenience=0.5),
        *arm_records("loose", 3, 2000),
    ]
    found = judged(run(described, *traces))
    assert {arm: at(found, arm).verdict.status for arm in ("plain", "exact", "loose")} == {
        "plain": Status.PASSED,
        "exact": Status.FAILED,
        "loose": Status.PASSED,
    }


def test_temperature_zero_and_engines_without_probabilities_are_not_tested():
    traces = [trace("a", arm=arm, temperature=t) for arm in ("plain", "exact") for t in (0.0, 0.7)]
    found = judged(run(manifest(), *traces))
    zero, above = at(found, "exact", 0.0), at(found, "exact")
    assert zero.verdict.reason == "temperature 0 is compared token by token"
    assert (above.verdict.status, above.verdict.reason) == (Status.NOT_TESTED, NO_EVIDENCE)
    assert zero.greedy is not None
    assert above.greedy is None
    assert at(found, "plain", 0.0).greedy is None
    missing = above.quantities()["fidelity"]
    assert {str(q.value) for q in missing.values()} == {f"nothing to measure: {NO_EVIDENCE}"}
    assert set(missing) == {"p", "log10_e", "detectable", "outside"}


def test_damaged_evidence_is_not_tested_and_says_why():
    broken = record(honest(4, 100), "p0", arm="exact")
    broken.evidence.sum_squares[3] = 1.5
    traces = [*arm_records("plain", 1), broken]
    found = judged(run(manifest((0.7,)), *traces), alpha=0.02)
    damaged = at(found, "exact").verdict
    assert damaged.status is Status.NOT_TESTED
    assert damaged.reason == (
        "the evidence is damaged: column sum_squares is outside [0, 1] at token 3: 1.5"
    )
    # It is no test: the other cell has the whole of alpha.
    tests = at(found, "plain").verdict.tests
    assert {test.alpha for test in tests if test.name != "support"} == {0.02 / 4}
    (row,) = [row for row in rows_of(run(manifest((0.7,)), *traces)) if row.arm == "exact"]
    assert row.identity == ""
    assert row.fidelity == f"not tested: {damaged.reason}"


def test_quantities_are_those_of_the_tests():
    hits = [True] * 30
    found = judged(run(manifest((0.7,)), coin(hits, arm="plain")))
    row = at(found, "plain").quantities()["fidelity"]
    stakes = (0.005, 0.02, 0.05, 0.1, 0.2, 0.4)
    wealth = (1 + sum((1 + stake) ** 30 for stake in stakes) / 6) / 2
    assert row["log10_e"].value == pytest.approx(math.log10(wealth))
    assert row["outside"].value == 0.0
    verdict = at(found, "plain").verdict
    assert row["p"].value == verdict.p <= 0.01
    assert {q.n for q in row.values()} == {30}


def test_a_cell_that_could_not_have_failed_has_no_detectable_size():
    found = judged(run(manifest((0.7,)), coin([True], arm="plain")))
    assert at(found, "plain").verdict.status is Status.TOO_FEW
    row = at(found, "plain").quantities()["fidelity"]
    assert str(row["detectable"].value) == "nothing to measure: no test could have failed"
    assert row["p"].value == 1.0


def priced(arm, tv):
    found = decoded(3, arm=arm)
    kl = [None, 0.1, 0.3]
    found.evidence = evidence(3, rule_tv=[None, *tv], rule_kl=kl, rule_entropy=kl, entropy=kl)
    return found


def test_only_a_proof_makes_a_price_of_zero():
    arms = tuple(STATES)
    traces = [priced(arm, (0.2, 0.4)) for arm in ("plain", *arms)]
    traces += [trace("a", arm=arm, temperature=0.0) for arm in ("plain", *arms)]
    found = judged(run(manifest(arms=arms), *traces))
    prices = {arm: at(found, arm).price.tv for arm in ("plain", *arms)}
    for arm in ("plain", "exact"):
        assert (prices[arm].value, prices[arm].method) == (0.0, "proven")
    assert prices["loose"].value == pytest.approx(0.3)
    assert prices["made_up"].value.reason == "acceptance is made up; the output says nothing"
    for arm in ("promised", "foreign"):
        assert prices[arm].value.reason == (
            f"the rule is {STATES[arm]}, not proven, to keep the target's law"
        )
    for arm in ("plain", *arms):
        reason = at(found, arm, 0.0).price.tv.value.reason
        assert reason == "a price is measured above temperature 0"
        assert at(found, arm).quantities()["price"]["tv"] == prices[arm]


def test_a_lossy_arm_without_recorded_laws_has_no_price():
    traces = [trace("a", arm=arm, temperature=0.7) for arm in ("plain", "loose")]
    found = judged(run(manifest((0.7,), ("loose",)), *traces))
    assert at(found, "loose").price.tv.value.reason == "the rule's output law was not recorded"


def greedy(arm, ids, margin=None, runner_up=None, item="a"):
    found = decoded(len(ids), item, arm=arm, ids=ids, temperature=0.0)
    found.evidence = evidence(len(ids), margin=margin or [9.0] * len(ids), runner_up=runner_up
                              or [0] * len(ids))  # fmt: skip
    return found


def test_the_limit_of_a_tie_is_the_run_s_or_the_given_one():
    traces = [
        greedy("plain", [5, 6, 7], [9.0, 0.03, 9.0], [1, 8, 1]),
        greedy("exact", [5, 8, 9]),
    ]
    found = run(manifest((0.0,)), *traces)
    kinds = {
        limit: at(judged(found, tie_tolerance=limit), "exact", 0.0).greedy.differing[0][1].kind
        for limit in (None, 0.02, 0.04)
    }
    # float32 without a measured error: 1e-3.
    assert kinds == {None: Kind.MISMATCH, 0.02: Kind.MISMATCH, 0.04: Kind.TIE}
    measured = run(manifest((0.0,), tie_tolerance=0.05), *traces)
    assert at(judged(measured), "exact", 0.0).greedy.passed


def test_support_is_judged_with_the_tolerance_of_a_replay():
    near = record(honest(5, 100), "p0", arm="exact")
    near.evidence.log_target[7] = None
    near.evidence.pit_width[7] = 0.0
    near.evidence.support_margin[7] = -0.02
    found = run(manifest((0.7,)), near)
    strict = at(judged(found), "exact")
    assert strict.verdict.status is Status.FAILED
    assert strict.quantities()["fidelity"]["outside"].value == 1.0
    lenient = at(judged(found, support_tolerance=0.05), "exact")
    assert lenient.verdict.status is Status.PASSED
    assert lenient.quantities()["fidelity"]["outside"].value == 0.0


def rows_of(found):
    measured = measure_cells(found)
    fidelity = measure_fidelity(found.manifest, {c: m.records for c, m in measured.items()})
    quality = dict.fromkeys(fidelity, Quality({}, {}))
    return summarise_run(found, measured, fidelity, quality, {}, ()).rows


def test_words_say_failed_only_of_what_claims_to_be_lossless():
    arms = ("exact", "loose", "made_up")
    broken = [*arm_records("plain", 1, 2000)]
    broken += [one for arm in arms for one in arm_records(arm, 2, 2000, lenience=0.5)]
    words = {row.arm: row.identity for row in rows_of(run(manifest((0.7,), arms), *broken))}
    assert words == {
        "plain": "passed",
        "exact": "FAILED",
        "loose": DETECTED,
        "made_up": "meaningless",
    }
    fine = [one for arm in ("plain", *arms) for one in arm_records(arm, 3, 2000)]
    found = {row.arm: row for row in rows_of(run(manifest((0.7,), arms), *fine))}
    words = {arm: row.identity for arm, row in found.items()}
    assert words == {
        "plain": "passed",
        "exact": "passed",
        "loose": UNSEEN,
        "made_up": "meaningless",
    }
    assert found["exact"].fidelity.startswith("passed, n=2000 tokens, p=")
    assert "would have caught TV" in found["exact"].fidelity
    assert found["exact"].figures["fidelity_detectable"].value > 0


@pytest.mark.parametrize("arm", ["exact", "loose", "made_up"])
def test_too_few_tokens_are_never_a_pass(arm):
    (row,) = [
        row for row in rows_of(run(manifest((0.7,), (arm,)), coin([True], arm=arm)))
        if row.arm == arm
    ]  # fmt: skip
    assert row.identity == "too few"
    assert row.fidelity == "too few tokens: n=1, no test could have failed"
    assert row.figures["fidelity_detectable"].value is None


def test_words_at_temperature_zero():
    arms = ("exact", "loose", "made_up")
    ids, other = [5, 6, 7], [5, 9, 9]
    traces = [greedy("plain", ids, item=item) for item in "ab"]
    traces += [greedy(arm, ids, item="a") for arm in arms]
    traces += [greedy(arm, other, item="b") for arm in arms]
    found = {row.arm: row for row in rows_of(run(manifest((0.0,), arms), *traces))}
    words = {arm: row.identity for arm, row in found.items()}
    assert words == {
        "plain": "",
        "exact": "MISMATCH 1/2",
        "loose": "differs 1/2",
        "made_up": "differs 1/2",
    }
    assert found["exact"].identity_detail == (
        "1 identical, 0 tie, 1 mismatch (code/b, index 1, margin 9)"
    )
    assert found["exact"].fidelity == ""
    tied = [greedy("plain", ids, [9.0, 1e-4, 9.0], [0, 9, 0]), greedy("exact", other)]
    (row,) = [row for row in rows_of(run(manifest((0.0,)), *tied)) if row.arm == "exact"]
    assert row.identity == "tie 1/1"
    same = [greedy("plain", ids), greedy("exact", ids)]
    (row,) = [row for row in rows_of(run(manifest((0.0,)), *same)) if row.arm == "exact"]
    assert (row.identity, row.identity_detail) == ("identical", "")


def test_an_estimated_price_is_marked_in_the_row():
    steps = decoded(2, arm="loose")
    steps.evidence = evidence(2, rule_tv=[None, 0.25])
    found = run(manifest((0.7,), ("loose",)), trace("a", arm="plain", temperature=0.7), steps)
    (row,) = [row for row in rows_of(found) if row.arm == "loose"]
    assert row.price_exact is False
    assert row.figures["price_tv"].value == 0.25
    assert row.figures["price_kl"].reason.endswith("the rule has no law of single tokens")
    assert np.isfinite(row.figures["price_tv"].value)

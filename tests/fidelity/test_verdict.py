"""Verdicts: who fails, who passes, who could not have failed, and how often honest cells fail."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from specbench.fidelity import conditional
from specbench.fidelity.support import REPLAY_TOLERANCE
from specbench.fidelity.verdict import CellVerdict, Status, judge, not_tested
from tests.fidelity.simulated import cell, part, rows, speculate

KNOWN = rows(1, 4000)
HONEST = cell(KNOWN, speculate, 3)


def test_honest_cells_fail_no_more_often_than_promised():
    cells, size, alpha = 300, 400, 0.01
    whole = cell(rows(7, cells * size), speculate, 11)
    failed = 0
    for start in range(0, cells * size, size):
        verdict = judge({"a": part(whole, slice(start, start + size))}, alpha)["a"]
        failed += verdict.status is Status.FAILED
    assert failed <= stats.binom.ppf(0.999, cells, alpha)


@pytest.mark.parametrize(
    ("defect", "named"),
    [
        ({"lenience": 0.8}, "draft_bias"),
        ({"residual_is_target": True}, "eprocess"),
        ({"target": KNOWN.untempered}, "surprisal"),
        ({"greedy_draft": True}, "eprocess"),
    ],
    ids=["lenience 0.8", "residual from the target", "temperature ignored", "greedy draft"],
)
def test_defects_fail(defect, named):
    verdict = judge({"broken": cell(KNOWN, speculate, 3, **defect)})["broken"]
    assert verdict.status is Status.FAILED
    assert verdict.p <= 0.01
    smallest = min(verdict.tests, key=lambda test: test.p)
    assert smallest is verdict.deciding
    assert named in {test.name for test in verdict.tests if test.p <= test.alpha}


def test_an_honest_cell_says_what_it_would_have_found():
    verdict = judge({"honest": HONEST})["honest"]
    assert verdict.status is Status.PASSED
    able = {t.name: t.detectable for t in verdict.tests if t.name != "support"}
    assert set(able) == {"pit", "surprisal", "draft_bias", "eprocess"}
    assert verdict.detectable == min(able.values())
    text = str(verdict)
    assert text.startswith(f"passed, n=4000 tokens, p={verdict.p:.2g}, would have caught TV 0.0")
    assert verdict.sharpest.name == "eprocess"
    assert text.endswith("(moved to the draft's first choice)")


def test_alpha_is_shared_by_tests_and_cells():
    plain = replace(
        HONEST,
        drafted=np.zeros(4000, bool),
        **{
            name: np.full(4000, np.nan)
            for name in ("log_draft", "draft_top_target", "draft_top_hit")
        },
    )
    cells = {"mtp": HONEST, "plain": plain, "empty": part(HONEST, slice(0))}
    found = judge(cells, 0.02)
    alphas = {
        name: {test.alpha for test in found[name].tests if test.name != "support"}
        for name in ("mtp", "plain")
    }
    assert alphas == {"mtp": {0.02 / 2 / 4}, "plain": {0.02 / 2 / 3}}
    assert found["mtp"].detectable > judge({"mtp": HONEST}, 0.02)["mtp"].detectable


def test_the_adjusted_p_is_holm_over_bonferroni():
    slight = cell(KNOWN, speculate, 3, lenience=0.85)
    found = judge({"slight": slight, "honest": HONEST})
    smallest = {}
    for name, columns in (("slight", slight), ("honest", HONEST)):
        tests = (
            conditional.pit,
            conditional.surprisal,
            conditional.draft_bias,
            conditional.eprocess,
        )
        smallest[name] = 4 * min(test(columns, 0.5).p for test in tests)
    assert smallest["slight"] < smallest["honest"]
    assert found["slight"].p == pytest.approx(2 * smallest["slight"])
    assert found["honest"].p == pytest.approx(min(1.0, smallest["honest"]))
    assert found["slight"].status is Status.FAILED
    assert found["honest"].status is Status.PASSED


def test_a_token_outside_the_support_fails_whatever_the_p_values():
    log_target, margin = HONEST.log_target.copy(), HONEST.support_margin.copy()
    log_target[17], margin[17] = -np.inf, -0.02
    near = replace(HONEST, log_target=log_target, support_margin=margin)
    failed = judge({"a": near})["a"]
    assert (failed.status, failed.p, failed.deciding.name) == (Status.FAILED, 0.0, "support")
    assert str(failed) == ("FAILED: support, 1 emitted with target probability 0, n=4000 tokens")
    replayed = judge({"a": near}, support_tolerance=REPLAY_TOLERANCE)["a"]
    assert replayed.status is Status.PASSED
    # Far beyond the border, and more than the 0.5 % that rounding may carry there: 60 of 4000.
    log_target[:60], margin[:60] = -np.inf, -0.2
    far = replace(near, log_target=log_target, support_margin=margin)
    assert judge({"a": far}, support_tolerance=REPLAY_TOLERANCE)["a"].status is Status.FAILED


@pytest.mark.parametrize("n", [1, 3])
def test_a_cell_that_could_not_have_failed_is_never_passed(n):
    verdict = judge({"tiny": part(HONEST, slice(n))})["tiny"]
    assert verdict.status is Status.TOO_FEW
    assert (verdict.detectable, verdict.sharpest) == (None, None)
    assert str(verdict) == f"too few tokens: n={n}, no test could have failed"


def test_a_tiny_cell_can_still_fail():
    tiny = replace(
        part(HONEST, slice(1, 4)),
        draft_top_target=np.full(3, 1e-5),
        draft_top_hit=np.ones(3),
    )
    assert judge({"tiny": tiny})["tiny"].status is Status.FAILED


def test_nothing_to_test():
    found = judge({"greedy": part(HONEST, slice(0))})["greedy"]
    assert (found.status, found.n, found.p, found.tests) == (Status.NOT_TESTED, 0, None, ())
    assert str(found).startswith("not tested: the record holds no target probabilities")
    assert judge({}) == {}
    assert str(not_tested("temperature 0")) == "not tested: temperature 0"


def test_a_failure_names_the_test_its_p_and_the_direction():
    result = conditional.TestResult("draft_bias", 3000, 9.1, 1e-9, 0.03, 0.0025)
    flat = conditional.TestResult("surprisal", 3512, -14.2, 1e-8, 0.04, 0.0025)
    verdict = CellVerdict(Status.FAILED, 3512, 3e-9, result, (result, flat))
    assert str(verdict) == "FAILED: draft_bias p=3e-09 (surprisal Z=-14.2), n=3512 tokens"
    sure = replace(verdict, p=1e-40)
    assert "draft_bias p<1e-12" in str(sure)
    assert verdict.detectable == 0.03


def test_the_order_of_records_does_not_change_a_fixed_n_verdict():
    shuffled = part(HONEST, np.random.default_rng(0).permutation(len(HONEST)))
    one, other = (judge({"a": columns})["a"] for columns in (HONEST, shuffled))
    for first, second in zip(one.tests, other.tests, strict=True):
        if first.name != "eprocess":
            assert first.p == pytest.approx(second.p, rel=1e-9)
        assert first.detectable == pytest.approx(second.detectable, rel=1e-9)

"""The fidelity report of a run: who fails, who passes, and what cannot be said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.core.manifest import ArmFactors, SuiteUse
from specbench.core.trace import Finish
from specbench.errors import PrerequisiteError
from specbench.experiment.analyse import fidelity_guards
from specbench.experiment.fidelity.report import FAILED, PASSED, UNDECIDED, report
from specbench.fidelity.verdict import ALPHA
from specbench.results.cells import Cell, cell_records
from specbench.results.fidelity import measure_fidelity
from specbench.results.read import Recorded, RecordId
from specbench.results.summary import DETECTED, UNSEEN
from tests.fidelity.evident import coin, decoded, evidence, records
from tests.fidelity.simulated import cell, rows, speculate
from tests.results.records import IDENTITY, MANIFEST, SAMPLING

STATES = {"exact": "proven", "second": "proven", "loose": "lossy", "made_up": "meaningless"}
LENIENT = {"lenience": 0.5}


def run(*traces, arms=("exact",), temperatures=(0.7,), concurrency=(1,), suites=("code",)):
    factors = [ArmFactors(n, "ngram", 3, n, "scripted", lossless=STATES[n]) for n in arms]
    sampling = tuple({**SAMPLING, "temperature": t} for t in temperatures)
    found = Recorded(
        replace(
            MANIFEST,
            identity=replace(IDENTITY, sampling=sampling, concurrency=concurrency),
            arms=(MANIFEST.arms[0], *factors),
            suites=tuple(SuiteUse(s, "1", "sha256:1", "test", 2, 2, "x") for s in suites),
        )
    )
    for one in traces:
        found.traces[RecordId(one.key, one.arm, one.concurrency)] = one
    return found


def sampled(arm, seed, tokens=2000, **defect):
    return records(cell(rows(seed, tokens), speculate, seed + 50, **defect), 100, arm=arm)


def lines(found, arm, test=None):
    return [line for line in found.lines if line.arm == arm and test in (None, line.test)]


def verdicts(found):
    return {line.arm: line.verdict for line in found.lines}


def test_an_honest_run_passes_with_every_number():
    found = report(run(*sampled("plain", 1), *sampled("exact", 2)), None)
    assert found.outcome == PASSED
    assert found.notes == ("evidence: the rows that the run itself decided by",)
    assert {line.test for line in lines(found, "exact")} == {
        *("support", "pit", "surprisal", "draft_bias", "eprocess"),
    }
    for line in found.lines:
        assert line.n == (2000 if line.test != "draft_bias" else 1600)
        assert 0 <= line.p <= 1
        assert line.statistic is not None
        if line.test == "support":
            # Nothing is truncated here, so that no token can lie outside.
            assert (line.verdict, line.detectable) == (UNDECIDED, None)
        else:
            assert line.verdict == PASSED
            assert 0 < line.detectable < 1
    plain, exact = found.sentences
    assert plain.startswith("T=0.7 plain: passed, n=2000 tokens, p=")
    assert exact.startswith("T=0.7 exact (rule exact: proven): passed, n=2000 tokens, p=")
    assert "would have caught TV" in exact


def test_a_broken_lossless_arm_fails_the_run_and_names_its_test():
    found = report(run(*sampled("plain", 1), *sampled("exact", 2, **LENIENT)), None)
    assert found.outcome == FAILED
    assert verdicts(found) == {"plain": PASSED, "exact": FAILED}
    assert "T=0.7 exact (rule exact: proven): FAILED: " in found.sentences[1]


def test_lossy_arms_neither_pass_nor_fail():
    traces = [one for arm in ("plain", "exact") for one in sampled(arm, 1)]
    traces += [one for arm in ("loose", "made_up") for one in sampled(arm, 2, **LENIENT)]
    found = report(run(*traces, arms=("exact", "loose", "made_up")), None)
    assert found.outcome == PASSED
    assert verdicts(found) == {
        "plain": PASSED,
        "exact": PASSED,
        "loose": DETECTED,
        "made_up": "meaningless",
    }
    assert f"T=0.7 loose (rule loose: lossy): {DETECTED}: " in found.sentences[2]
    assert found.sentences[3].endswith("meaningless, acceptance is made up")
    assert not any(FAILED in text for text in found.sentences)
    quiet = report(run(*sampled("plain", 1), *sampled("loose", 3), arms=("loose",)), None)
    assert verdicts(quiet)["loose"] == UNSEEN
    assert f"{UNSEEN}: n=2000 tokens" in quiet.sentences[1]


def test_nothing_that_could_not_have_failed_passes():
    found = report(run(coin([True], arm="plain"), coin([True], arm="exact")), None)
    assert found.outcome == UNDECIDED
    assert verdicts(found) == {"plain": UNDECIDED, "exact": UNDECIDED}
    assert found.sentences[1].endswith("too few tokens: n=1, no test could have failed")


def test_plain_does_not_pass_for_an_arm_that_could_not_be_judged():
    found = report(run(*sampled("plain", 1), coin([True], arm="exact")), None)
    assert verdicts(found) == {"plain": PASSED, "exact": UNDECIDED}
    assert found.outcome == UNDECIDED
    # Where nothing else claims to be lossless, plain is what was judged.
    alone = report(run(*sampled("plain", 1), *sampled("loose", 2), arms=("loose",)), None)
    assert alone.outcome == PASSED
    broken = report(run(*sampled("plain", 1, **LENIENT), *sampled("exact", 2)), None)
    assert broken.outcome == FAILED


def greedy(arm, ids, item="a", margin=9.0, second=0, **changes):
    found = decoded(len(ids), item, arm=arm, ids=ids, temperature=0.0, **changes)
    found.evidence = evidence(
        len(ids), margin=[margin] * len(ids), runner_up=[second] * len(ids),
        target_top_hit=[1] * len(ids),
    )  # fmt: skip
    return found


SAME, OTHER = [5, 6, 7, 8], [5, 9, 9, 9]


def at_zero(*traces, **changes):
    return report(run(*traces, temperatures=(0.0,), **changes), None)


def test_greedy_arms_without_a_floor():
    plain = [greedy("plain", SAME, item) for item in "abc"]
    found = at_zero(*plain, *(greedy("exact", SAME, item) for item in "abc"))
    assert found.outcome == PASSED
    (line,) = lines(found, "exact")
    assert (line.test, line.n, line.statistic, line.p) == ("identical", 3, 0.0, None)
    assert line.note == (
        "3 identical, 0 tie, 0 mismatch; 3/3 agree; plain was not repeated, so there is no floor"
    )
    assert found.sentences[1] == f"T=0 exact (rule exact: proven): passed, {line.note}"
    broken = at_zero(*plain, greedy("exact", SAME, "a"), greedy("exact", OTHER, "b"))
    assert broken.outcome == FAILED
    assert lines(broken, "exact")[0].statistic == 1.0
    assert "code/b, index 1" in broken.sentences[1]


def test_plain_claims_nothing_at_temperature_zero():
    found = at_zero(greedy("plain", SAME), greedy("exact", SAME))
    (line,) = lines(found, "plain")
    assert (line.verdict, line.n, line.p, line.statistic) == (UNDECIDED, 0, None, None)
    assert found.sentences[0] == "T=0 plain: not compared, plain is what others are compared with"
    assert at_zero(greedy("plain", SAME), arms=()).outcome == UNDECIDED


def test_an_arm_without_a_partner_is_not_plain():
    failed = greedy("plain", SAME, finish=Finish.ERROR)
    found = at_zero(failed, greedy("exact", SAME))
    (line,) = lines(found, "exact")
    assert (line.verdict, line.n) == (UNDECIDED, 0)
    assert line.note == "no output has one of plain's with the same prompt"
    assert found.outcome == UNDECIDED


ITEMS = [f"p{i:02}" for i in range(20)]


def floor_run(plain_differs, arm_differs, **where):
    """Plain repeated once per item, and one output of the arm per item."""
    traces = []
    for number, item in enumerate(ITEMS):
        again = OTHER if number in plain_differs else SAME
        traces += [greedy("plain", SAME, item), greedy("plain", again, item, **where)]
        # The arm is compared with plain's first output.
        traces.append(greedy("exact", OTHER if number in arm_differs else SAME, item))
    concurrency = (1, 4) if "concurrency" in where else (1,)
    return at_zero(*traces, concurrency=concurrency)


@pytest.mark.parametrize("where", [{"repeat": 1}, {"concurrency": 4}], ids=["repeats", "levels"])
def test_the_floor_comes_from_plain_s_own_repeats(where):
    perfect = floor_run((), (3,), **where)
    (line, *_) = lines(perfect, "exact")
    assert line.verdict == FAILED
    assert "below the floor: 19/20 agree, reference with itself 20/20" in line.note
    noisy = floor_run((0, 1, 2), (3, 4), **where)
    (line, *_) = lines(noisy, "exact")
    assert line.verdict == PASSED
    assert "within noise floor: 18/20 agree, reference with itself 17/20" in line.note
    assert 0 < line.detectable < 1
    assert noisy.outcome == PASSED
    worse = floor_run((0,), range(5, 20), **where)
    assert lines(worse, "exact")[0].verdict == FAILED


def test_a_noisy_floor_of_few_outputs_decides_nothing():
    # 1 + 1 outputs that do not agree with themselves: no outcome of the arm would be remarkable.
    noise = [greedy("plain", SAME), greedy("plain", OTHER, repeat=1)]
    for ids in (SAME, OTHER):
        found = at_zero(*noise, greedy("exact", ids))
        (line,) = lines(found, "exact")
        assert line.verdict == UNDECIDED
        assert "too few" in line.note
        assert found.outcome == UNDECIDED


def test_greedy_differences_of_a_lossy_arm_are_no_failure():
    found = at_zero(
        *(greedy("plain", SAME, item) for item in "ab"),
        *(greedy("loose", OTHER, item) for item in "ab"),
        arms=("loose",),
    )
    assert lines(found, "loose")[0].verdict == DETECTED
    assert found.outcome == UNDECIDED


def test_only_the_cells_over_all_suites_are_judged():
    traces = []
    for suite in ("code", "chat"):
        for arm in ("plain", "exact"):
            for one in sampled(arm, 1, 400):
                traces.append(replace(one, key=replace(one.key, suite=suite)))  # noqa: PERF401
    found = report(run(*traces, suites=("code", "chat")), None)
    assert {line.n for line in lines(found, "exact", "pit")} == {800}
    assert len(found.sentences) == 2


def test_concurrencies_are_told_apart():
    traces = [
        replace(one, concurrency=level)
        for arm in ("plain", "exact")
        for one in sampled(arm, 1, 400)
        for level in (1, 4)
    ]
    found = report(run(*traces, concurrency=(1, 4)), None)
    assert [text[: text.index(":")] for text in found.sentences] == [
        *("T=0.7 plain c=1", "T=0.7 exact c=1 (rule exact"),
        *("T=0.7 plain c=4", "T=0.7 exact c=4 (rule exact"),
    ]
    assert {line.concurrency for line in found.lines} == {1, 4}


def test_a_run_without_a_request_cannot_be_judged():
    with pytest.raises(PrerequisiteError, match="no request of this run can be judged"):
        report(run(), None)


def test_damaged_evidence_falls_back_to_whole_outputs():
    damaged = list(sampled("exact", 2, 400))
    damaged[0].evidence.entropy[5] = float("nan")
    found = report(run(*sampled("plain", 1, 400), *damaged), None)
    assert {line.test for line in lines(found, "exact")} == {
        *("outputs:mmd", "outputs:first_token", "outputs:length", "outputs:eos_rate"),
    }
    assert "not tested: the evidence is damaged: column entropy is nan" in found.sentences[1]
    assert verdicts(found)["exact"] == UNDECIDED


def outputs(arm, item, ids, repeat, temperature=0.7):
    return decoded(len(ids), item, arm=arm, ids=ids, repeat=repeat, temperature=temperature)


def sampled_outputs(arm, count, word=0, temperature=0.7):
    """Repeats that take turns at two outputs, made of tokens ``word`` and ``word + 1``.

    Even repeats of an arm are compared with odd ones of plain, and both take turns alike.
    """
    return [
        outputs(arm, item, [word + (repeat // 2 + k) % 2 for k in range(4)], repeat, temperature)
        for item in "ab"
        for repeat in range(count)
    ]


def test_without_probabilities_whole_outputs_are_compared():
    same = report(run(*sampled_outputs("plain", 20), *sampled_outputs("exact", 20)), None)
    assert same.outcome == PASSED
    names = {line.test for line in lines(same, "exact")}
    assert names == {"outputs:mmd", "outputs:first_token", "outputs:length", "outputs:eos_rate"}
    assert {line.n for line in lines(same, "exact")} == {40}
    (line,) = lines(same, "plain")
    assert (line.test, line.verdict, line.n) == ("none", UNDECIDED, 0)
    assert (
        "; whole outputs: passed (mmd: passed, n=20+20 outputs of 2 prompts, p="
        in (same.sentences[1])
    )
    assert "would have caught TV" in same.sentences[1]
    assert same.sentences[1].endswith("), plain against itself: passed")
    assert "whole outputs" not in same.sentences[0]
    other = report(run(*sampled_outputs("plain", 20), *sampled_outputs("exact", 20, 50)), None)
    assert other.outcome == FAILED
    assert lines(other, "exact", "outputs:mmd")[0].p <= ALPHA
    few = report(run(*sampled_outputs("plain", 1), *sampled_outputs("exact", 1, 50)), None)
    assert few.outcome == UNDECIDED
    assert "whole outputs: undecided (mmd: too_few, " in few.sentences[1]
    assert few.sentences[1].endswith("plain against itself: too_few")


def test_outputs_are_compared_beside_the_tokens_where_asked():
    recorded = run(*sampled("plain", 1, 400), *sampled("exact", 2, 400))
    asked, unasked = report(recorded, None, outputs=True), report(recorded, None)
    assert {t for t in (line.test for line in asked.lines) if t.startswith("outputs:")}
    assert not [line for line in unasked.lines if line.test.startswith("outputs:")]
    assert [line for line in asked.lines if not line.test.startswith("outputs:")] == list(
        unasked.lines
    )


def test_alpha_of_whole_outputs_is_shared_by_all_arms():
    # One prompt of 4 + 4 outputs, the arm's even repeats and plain's odd ones: the smallest p is
    # 2 / 70, which one arm alone may reach.
    def traces(*arms):
        for arm in arms:
            word = 0 if arm == "plain" else 50
            for repeat in range(8):
                ids = [word + repeat, word + 10 + repeat]
                yield outputs(arm, "a", ids, repeat)

    one = report(run(*traces("plain", "exact")), None, alpha=0.05)
    assert "could not have failed" not in lines(one, "exact", "outputs:mmd")[0].note
    arms = ("exact", "second")
    two = report(run(*traces("plain", *arms), arms=arms), None, alpha=0.05)
    for arm in arms:
        line = lines(two, arm, "outputs:mmd")[0]
        assert (line.verdict, line.p) == (UNDECIDED, None)
        assert line.note == "could not have failed: smallest possible p is 0.029"


def test_p_of_whole_outputs_is_adjusted_for_tests_and_arms():
    arms = ("exact", "second")
    traces = [*sampled_outputs("plain", 12), *sampled_outputs("second", 12)]
    traces += sampled_outputs("exact", 12, 50)
    found = report(run(*traces, arms=arms), None, alpha=0.1)
    # No relabelling is as extreme as outputs without a common token: 1 of 2000, 4 tests, 2 arms.
    assert lines(found, "exact", "outputs:mmd")[0].p == pytest.approx(4 * 2 / 2000)
    assert {line.p for line in lines(found, "second")} == {1.0}
    assert verdicts(found) == {"plain": UNDECIDED, "exact": FAILED, "second": PASSED}


@pytest.mark.parametrize("replaced", [0, 12, 16, 20, 24])
def test_an_arm_fails_exactly_where_its_smallest_p_is_at_most_alpha(replaced):
    traces = [*sampled_outputs("plain", 12), *sampled_outputs("second", 12)]
    traces += sampled_outputs("exact", 12, 50)[:replaced] + sampled_outputs("exact", 12)[replaced:]
    found = report(run(*traces, arms=("exact", "second")), None, alpha=0.05)
    smallest = min(line.p for line in lines(found, "exact") if line.p is not None)
    failed = verdicts(found)["exact"] == FAILED
    assert failed == (smallest <= 0.05)
    assert failed or replaced < 24
    assert not failed or replaced > 0


def test_empty_texts_without_ids_are_compared_by_their_letters():
    def told(arm, text, repeat):
        return decoded(2, "a", arm=arm, ids=[], repeat=repeat)

    traces = []
    for repeat in range(20):
        for arm, text in (("plain", "yes"), ("exact", "no!")):
            one = told(arm, text, repeat)
            one.text, one.output_ids = text, []
            traces.append(one)
    assert report(run(*traces), None).outcome == FAILED


def test_guards_accuse_only_arms_that_claim_to_be_lossless():
    traces = [*sampled("plain", 1), *sampled("exact", 2, **LENIENT)]
    recorded = run(*traces)
    found = measure_fidelity(recorded.manifest, cell_records(recorded))
    broken = found[Cell("code", 0.7, 1, "exact")]
    (guard,) = fidelity_guards(broken, "proven")
    assert (guard.code, guard.text.split(":")[0]) == ("output_differs", "not the target's output")
    assert fidelity_guards(broken, "lossy") == []
    assert fidelity_guards(broken, "meaningless") == []
    assert fidelity_guards(found[Cell("code", 0.7, 1, "plain")], "proven") == []

"""Samplers with uniform numbers as arguments: right ones pass, each broken one fails by name."""

import pytest
import torch

from specbench.laws.adapters import UniformsSampler
from specbench.laws.exact import exact_outcomes, law_outcomes, target_itself
from specbench.laws.outcome import Status
from specbench.laws.tables import GOLDEN, LawTable
from tests.laws import samplers

CPU = torch.device("cpu")


def outcomes(function):
    return list(exact_outcomes("mine", UniformsSampler(function, CPU), seed=0))


def failed(function):
    return {o.case: o.detail for o in outcomes(function) if o.status is Status.FAILED}


def test_a_right_sampler_passes_everything_and_every_defect_is_caught():
    found = outcomes(samplers.rejection)
    assert all(o.status is not Status.FAILED for o in found)
    blind = [o.case for o in found if o.status is Status.NOT_APPLICABLE]
    assert blind == ["noise keyed by position"]
    caught = [o for o in found if o.check == "mutant" and o.status is Status.PASSED]
    assert len(caught) == 5
    assert all(o.off > 0.001 for o in caught)
    assert max(o.off for o in found if o.check == "law") < 1e-6


def test_32_bit_numbers_inside_a_sampler_are_no_reason_to_fail():
    def single(target, draft, ids, accept, last):
        tokens = samplers.rejection(target, draft, ids, accept.float(), last.float())
        return tokens.to(torch.int32)

    assert failed(single) == {}


@pytest.mark.parametrize("function", [samplers.lenient, samplers.residual_from_target])
def test_a_law_that_is_off_fails_on_nearly_every_table(function):
    found = outcomes(function)
    laws = [o for o in found if o.check == "law" and o.status is Status.FAILED]
    assert len(laws) >= 10
    assert all(o.off > 1e-4 for o in laws)
    mutants = [o for o in found if o.check == "mutant"]
    assert {o.status for o in mutants} == {Status.NOT_APPLICABLE}


@pytest.mark.parametrize(
    ("function", "case", "words"),
    [
        (samplers.closed_at_zero, "support at u = 0, 1/2 and below 1", "probability 0"),
        (samplers.first_id_for_holes, "draft id -1, four tokens, K=2", "counted as a token"),
        (samplers.in_place, "arguments are left alone", "writes to draft_probs"),
        (samplers.hidden_numbers, "pure, round by round", "not its arguments"),
        (samplers.neighbours, "pure, round by round", "beside it in the batch"),
        (samplers.raises, "pure, round by round", "LookupError: no such vocabulary"),
        (samplers.wrong_shape, "pure, round by round", "int64 or int32 [512, 4]"),
    ],
)
def test_a_broken_sampler_fails_where_it_is_broken(function, case, words):
    assert words in failed(function)[case]


def test_nothing_is_integrated_that_does_not_follow_from_the_arguments():
    (law,) = [o for o in outcomes(samplers.hidden_numbers) if o.check == "law"]
    assert law.status is Status.NOT_APPLICABLE


def slanting(target, draft, ids, accept, last):
    """Right in law: the number behind the drafts is shifted by the first accept number."""
    return samplers.rejection(target, draft, ids, accept, (last + accept[:, 0]) % 1)


def test_numbers_that_mix_are_doubted_and_not_passed():
    laws = [o for o in outcomes(slanting) if o.check == "law"]
    assert laws[0].status is Status.FAILED
    assert "no step function" in laws[0].detail


def refuses(target, draft, ids, accept, last):
    """Insists on rows that add up to 1."""
    if not torch.allclose(draft.sum(2), torch.ones(())):
        raise ValueError("rows must add up to 1")
    return samplers.rejection(target, draft, ids, accept, last)


def test_a_sampler_that_refuses_a_defect_has_caught_it():
    found = {o.case: o for o in outcomes(refuses)}
    refused = found["draft rows not renormalised"]
    assert refused.status is Status.PASSED
    assert "rows must add up to 1" in refused.detail


def drops_the_bonus(target, draft, ids, accept, last):
    """Right in law, but a whole draft is followed by nothing."""
    tokens = samplers.rejection(target, draft, ids, accept, last)
    tokens[:, -1] = -1
    return tokens


def test_a_defect_of_the_bonus_leaves_no_trace_where_there_is_none():
    found = {o.case: o for o in outcomes(drops_the_bonus)}
    assert found["three tokens, K=3"].status is Status.PASSED
    assert found["bonus without temperature"].status is Status.NOT_APPLICABLE
    assert "no bonus" in found["bonus without temperature"].detail


def two_draws(target, draft, ids, accept, last):
    """Two tokens of the target whatever was drafted: the right law, at an impossible rate."""
    return torch.stack(
        [samplers.pick(target[:, 0], accept[:, 0]), samplers.pick(target[:, 1], last)], 1
    )


def test_more_than_optimal_transport_allows_cannot_be_right():
    table = LawTable("golden", *GOLDEN, True, 1)
    (outcome,) = law_outcomes("mine", UniformsSampler(two_draws, CPU), target_itself, [table])
    assert outcome.off < 1e-6
    assert outcome.status is Status.FAILED
    assert "keeps 1 drafts with 1.0000" in outcome.detail
    assert "0.7000" in outcome.detail

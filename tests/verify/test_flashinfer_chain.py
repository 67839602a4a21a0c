"""The rule over FlashInfer's kernel, with a stand-in for the library."""

from dataclasses import fields

import pytest
import torch

from specbench import catalog
from specbench.core.arm import ArmSpec
from specbench.core.request import Sampling
from specbench.core.trace import ShortDraft
from specbench.decoding.laws import DenseLaws
from specbench.decoding.protocols import RECOVERED, Uniforms
from specbench.decoding.rows import TargetRows
from specbench.drafters.chain import chain_draft
from specbench.errors import PrerequisiteError
from specbench.experiment.arms import check_arms
from specbench.laws.listed_rules import ZERO_TABLES, rule_outcomes
from specbench.laws.outcome import Status
from specbench.laws.rules import DrawnRule
from specbench.laws.sampled import generator_outcomes
from specbench.laws.tables import TABLES
from specbench.verify.flashinfer_chain import INFO, RULE, SPARE, chain_rule
from tests.models import fake_flashinfer_sampling
from tests.models.fake_flashinfer import library
from tests.verify.test_captured import judges_alone

B, N, V = 400, 4, 6
STAND_IN = chain_rule(lambda device: library)
REJECTION = catalog.resolve("rules", "rejection")


def batch(dense=True, counts=(N,) * B, seed=0, strange=None):
    """Random drafts, rows and numbers; every fourth request is greedy.

    ``strange`` is the third id of every second request.
    """
    random = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(B, N + 1, V, generator=random)
    draft = torch.softmax(logits[:, :N] + torch.randn(B, N, V, generator=random), -1)
    ids = torch.multinomial(draft.view(-1, V), 1, generator=random).view(B, N)
    if strange is not None:
        ids[::2, 2] = strange
    ids[torch.arange(N) >= torch.tensor(counts)[:, None]] = -1
    settings = [Sampling(1.0 if b % 4 else 0.0) for b in range(B) for _ in range(N + 1)]
    rows = TargetRows(logits.view(-1, V), torch.arange(B * (N + 1)).view(B, -1), settings)
    made = chain_draft(ids, tuple(counts), draft if dense else None, [ShortDraft.NONE] * B)
    numbers = (
        torch.rand(shape, dtype=torch.float32, generator=random).double()
        for shape in ((B, N), (B,), (B,), (B, N + 1))
    )
    return made.tree, made.trials, rows, made.laws, [None] * B, Uniforms(*numbers)


RAGGED = tuple(i % (N + 1) for i in range(B))
CASES = [
    pytest.param({}, id="full drafts"),
    pytest.param({"dense": False}, id="chosen without chance"),
    pytest.param({"counts": RAGGED}, id="of all lengths"),
    pytest.param({"counts": RAGGED, "dense": False}, id="of all lengths, without chance"),
    *(pytest.param({"strange": i}, id=f"id {i}") for i in (-1, V, V + 5)),
]


@pytest.mark.parametrize("how", CASES)
def test_given_the_numbers_of_rejection_it_gives_its_verdict(monkeypatch, how):
    given = batch(**how)
    uniforms = given[-1]

    def numbers(seed, offset, shape):
        """Those of ``rejection``; zeros for tests whose results are not used."""
        found = torch.zeros(shape)
        found[:, :N] = uniforms.accept
        found[:, -1] = uniforms.bonus
        return found.numpy()

    monkeypatch.setattr(fake_flashinfer_sampling.library, "numbers", numbers)
    # One number for the last token, whichever it is.
    shared = Uniforms(uniforms.accept, uniforms.bonus, uniforms.bonus, uniforms.target)
    expected = REJECTION(*given[:-1], shared)[0]
    found = STAND_IN(*given[:-1], shared)[0]
    for field in fields(expected):
        assert torch.equal(getattr(found, field.name), getattr(expected, field.name)), field.name
    assert {0, 1, 2, 3} <= set(found.n_accepted.tolist())


def test_drafts_that_pass_behind_a_rejection_are_not_accepted(monkeypatch):
    heard = {}

    def told(*arguments, **named):
        tokens, heard["accepted"], heard["emitted"] = kernel(*arguments, **named)
        return tokens, heard["accepted"], heard["emitted"]

    kernel = fake_flashinfer_sampling.library.chain_speculative_sampling
    monkeypatch.setattr(fake_flashinfer_sampling.library, "chain_speculative_sampling", told)
    verdict, _ = STAND_IN(*batch())
    assert torch.equal(verdict.n_accepted, heard["emitted"].long())
    assert bool((heard["accepted"] > heard["emitted"]).any())


@pytest.mark.parametrize("temperature", [1.0, 0.0])
def test_a_rejection_of_equal_rows_keeps_the_draft(monkeypatch, temperature):
    monkeypatch.setattr(
        fake_flashinfer_sampling.library, "numbers", lambda s, o, shape: torch.ones(shape).numpy()
    )
    logits = torch.tensor([[2.0, 0.0, 1.0, -torch.inf]] * 3)
    other = [Sampling(temperature)] * 2 + [Sampling(1.0)]
    rows = TargetRows(logits, torch.tensor([[0, 1], [2, 2]]), other)
    law = rows.processed()[[0, 2]][:, None]
    drafted = torch.tensor([[0], [2]])
    made = chain_draft(drafted, (1, 1), law, [ShortDraft.NONE] * 2)
    half = torch.full((2,), 0.5, dtype=torch.float64)
    numbers = Uniforms(half[:, None], half, half, half[:, None].expand(2, 2))
    verdict, _ = STAND_IN(made.tree, made.trials, rows, made.laws, [None] * 2, numbers)
    # u = 1 is never below 1, so both are rejected with nothing left over.
    assert verdict.n_accepted.tolist() == [0, 0]
    assert verdict.kind.tolist() == [RECOVERED] * 2
    assert verdict.next_token.tolist() == [0, 2]


def test_what_it_hands_over_takes_the_memory_that_is_stated(monkeypatch):
    seen = {}

    def kernel(draft, ids, target, **named):
        seen["bytes"] = draft.nbytes + target.nbytes
        return spare(draft, ids, target, **named)

    spare = fake_flashinfer_sampling.library.chain_speculative_sampling
    monkeypatch.setattr(fake_flashinfer_sampling.library, "chain_speculative_sampling", kernel)
    STAND_IN(*batch(dense=False))
    assert seen["bytes"] == 4 * B * (2 * N + 1) * (V + SPARE)


def test_the_seed_of_a_step_is_that_of_its_first_request():
    *given, uniforms = batch()
    first, _ = STAND_IN(*given, uniforms)
    again, _ = STAND_IN(*given, uniforms)
    assert torch.equal(first.next_token, again.next_token)
    others = Uniforms(*(getattr(uniforms, field.name).clone() for field in fields(uniforms)))
    for part in (others.accept, others.residual, others.bonus):
        part[1:] = 0.25
    same, _ = STAND_IN(*given, others)
    assert torch.equal(first.path, same.path)
    assert torch.equal(first.next_token, same.next_token)
    others.residual[0] = 0.25
    fresh, _ = STAND_IN(*given, others)
    assert not torch.equal(first.next_token, fresh.next_token)


def test_broken_rows_give_some_id_and_no_error():
    *given, uniforms = batch(dense=False)
    given[2].raw[:] = torch.nan
    verdict, _ = STAND_IN(*given, uniforms)
    assert bool(((verdict.next_token >= 0) & (verdict.next_token < V)).all())
    *given, uniforms = batch()
    given[3] = DenseLaws(torch.full_like(given[3].rows, torch.nan))
    verdict, _ = STAND_IN(*given, uniforms)
    assert bool((verdict.n_accepted == 0).all())


def test_its_law_is_the_targets_and_planted_defects_are_caught():
    sampler = DrawnRule(STAND_IN, torch.device("cpu"))
    found = list(generator_outcomes("stand-in", sampler, samples=20_000, seed=1))
    laws = [one.case for one in found if one.check == "law"]
    assert laws == [table.name for table in TABLES]
    assert [one for one in found if one.status in (Status.FAILED, Status.TOO_FEW)] == []
    caught = {one.case for one in found if one.check == "mutant" and one.status is Status.PASSED}
    assert {"residual from the target", "bonus without temperature"} <= caught


def test_counting_passes_behind_a_rejection_would_be_found():
    def miscounted(draft, ids, target, **named):
        tokens, accepted, _ = kernel(draft, ids, target, **named)
        return tokens.clamp(min=0), accepted.clamp(max=ids.shape[1]), accepted

    kernel = fake_flashinfer_sampling.library.chain_speculative_sampling
    wrong = type("Library", (), {"sampling": type("S", (), {})})
    wrong.sampling.chain_speculative_sampling = staticmethod(miscounted)
    sampler = DrawnRule(chain_rule(lambda device: wrong), torch.device("cpu"))
    found = list(generator_outcomes("miscounted", sampler, samples=8_000, seed=1))
    assert Status.FAILED in {one.status for one in found if one.check == "law"}


def test_nothing_is_read_on_the_host():
    assert judges_alone(STAND_IN) is INFO.device_only is True


def test_without_a_gpu_it_is_refused_before_anything_loads():
    arm = ArmSpec("fast", "ngram", 3, "flashinfer_chain")
    with pytest.raises(PrerequisiteError, match="arm fast: rule flashinfer_chain runs on CUDA"):
        check_arms([arm], [0.7], device="cpu")
    with pytest.raises(PrerequisiteError, match="rule = flashinfer_chain runs on CUDA"):
        RULE(*batch())


def test_where_it_does_not_run_its_law_is_left_out_with_the_reason():
    found = list(rule_outcomes("flashinfer_chain", samples=1))
    left = [one for one in found if one.status is Status.NOT_APPLICABLE]
    cold = {f"temperature 0, {one.name}" for one in ZERO_TABLES}
    assert {one.case for one in found if one.status is Status.PASSED} == cold
    if not torch.cuda.is_available():
        assert [(one.case, one.detail.startswith("rule flashinfer_chain")) for one in left] == [
            ("any", True)
        ]

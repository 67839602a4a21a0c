"""Rules that decide nothing on the host, and their verdicts replayed."""

import pytest
import torch

from specbench.core.request import Sampling
from specbench.decoding.laws import DenseLaws, OneHotLaws
from specbench.decoding.protocols import Uniforms
from specbench.decoding.rows import TargetRows
from specbench.decoding.sampling import RowContext
from specbench.decoding.tree import TrialKind, chain, chain_trials
from specbench.models.graphs.captured import Graphs
from specbench.verify.captured import CapturedRule, Given, shape_of
from tests.models.recorded import TracedRecorder
from tests.queued import DEVICE, Queued
from tests.verify.judged import RULES, B, N, V, batch, same

CASES = [
    (temperature, dense)
    for temperature in (Sampling(0.0), Sampling(0.8), Sampling(0.8, top_k=5, top_p=0.9))
    for dense in (False, True)
]


def without_values(settings, dense):
    """A batch of full chains on a device that nothing can be read from."""
    tree = chain(torch.empty(B, N, dtype=torch.long, device=DEVICE), (N,) * B)
    count = B * (N + 1)
    rows = TargetRows(
        torch.empty(count, V, device=DEVICE), torch.arange(count).view(B, -1), [settings] * count
    )
    laws = DenseLaws(torch.empty(B, N, V, device=DEVICE)) if dense else OneHotLaws()
    kind = TrialKind.IID if dense else TrialKind.ONE_HOT
    shapes = ((B, N), (B,), (B,), (B, N + 1))
    numbers = (torch.empty(shape, dtype=torch.float64, device=DEVICE) for shape in shapes)
    return tree, chain_trials(tree, kind), rows, laws, Uniforms(*numbers)


def judges_alone(rule):
    """Whether it judges every kind of full chains without reading or sending anything."""
    try:
        for settings, dense in CASES:
            if settings.greedy or rule.info.sampled:
                tree, trials, rows, laws, uniforms = without_values(settings, dense)
                with Queued(sends=False):
                    rule(tree, trials, rows, laws, [rule.admit([1])] * B, uniforms)
    except (NotImplementedError, AssertionError):
        return False
    return True


@pytest.mark.parametrize("name", RULES)
def test_the_declaration_is_true(name):
    rule = RULES[name]
    assert rule.info.device_only is (judges_alone(rule) and not rule.info.stateful)


@pytest.mark.parametrize("name", [name for name in RULES if RULES[name].info.device_only])
def test_replayed_verdicts_are_those_of_the_rule(name):
    rule, recorder = RULES[name], TracedRecorder()
    graphs = Graphs(recorder, capturing=True)
    captured = CapturedRule(rule, graphs)
    accepted, cases = set(), 0
    for settings, dense in CASES:
        if not settings.greedy and not rule.info.sampled:
            continue
        cases += 1
        for seed in range(12):
            given = batch(settings, dense, seed)
            verdict, _ = captured(*given)
            same(verdict, rule(*given)[0])
            accepted |= set(verdict.n_accepted.tolist())
        graphs.capturing = True
    assert accepted == set(range(N + 1))
    assert recorder.records == cases
    assert recorder.replays == 12 * cases


def test_other_batches_are_judged_eagerly():
    rule, recorder = RULES["rejection"], TracedRecorder()
    graphs = Graphs(recorder, capturing=True)
    captured = CapturedRule(rule, graphs)
    ragged = batch(Sampling(0.8), True, 1, (2, 1, 0))
    assert shape_of(Given(*ragged)) is None
    same(captured(*ragged)[0], rule(*ragged)[0])
    mixed = list(batch(Sampling(0.8), True, 1))
    settings = [Sampling(0.8)] * (2 * (N + 1)) + [Sampling(0.5)] * (N + 1)
    mixed[2] = TargetRows(mixed[2].raw, mixed[2].index, settings)
    same(captured(*mixed)[0], rule(*mixed)[0])
    penalised = list(batch(Sampling(0.8, repetition_penalty=1.3), True, 1))
    contexts = [RowContext([1, 2], [3])] * (B * (N + 1))
    penalised[2] = TargetRows(penalised[2].raw, mixed[2].index, penalised[2].sampling, contexts)
    same(captured(*penalised)[0], rule(*penalised)[0])
    assert recorder.records == 0


def test_nothing_is_captured_in_a_measured_step_and_a_failure_is_told():
    rule, recorder = RULES["rejection"], TracedRecorder()
    graphs = Graphs(recorder)
    given = batch(Sampling(0.8), True, 1)
    CapturedRule(rule, graphs)(*given)
    assert recorder.records == 0
    graphs = Graphs(TracedRecorder(fails=True), capturing=True)
    captured = CapturedRule(rule, graphs)
    for _ in range(2):
        same(captured(*given)[0], rule(*given)[0])
    assert graphs.failed == {"operation not permitted when stream is capturing": 1}

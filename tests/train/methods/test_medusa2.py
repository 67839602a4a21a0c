"""Joint training: where it starts, what moves when, and the folder that comes out."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from specbench.models.heads.configs import FINAL, TargetShape
from specbench.models.heads.medusa import build_parallel_heads
from specbench.models.heads.read import read_head
from specbench.models.load import load_model
from specbench.models.locate import locate
from specbench.train.losses.divergences import forward_kl, token_cross_entropy
from specbench.train.methods.accuracies import rank_accuracies
from specbench.train.methods.medusa2 import Joint, Medusa2Training
from specbench.train.methods.parallel import HeadLosses, ParallelTraining
from tests.models.heads.tiny_heads import VOCABULARY
from tests.train.methods.captured import captured, lines_of, run
from tests.train.methods.test_parallel import ANSWERS, HEADS, IDS, LENGTHS, heads_of

pytestmark = pytest.mark.usefixtures("one_thread")

LOSSES = HeadLosses((1.0, 0.8, 0.64), token_cross_entropy)


def training(target, checkpoint, warm_steps=0, **changes):
    how = Joint(LOSSES, 4, warm_steps, 1e-3, **changes)
    return Medusa2Training(checkpoint, target, how)


def batch_of(target):
    return captured(target, lines_of(LENGTHS, VOCABULARY), ANSWERS)


def adapters(method):
    return {n: t for n, t in method.state().items() if n.endswith((".down", ".up"))}


def moved(method, scale=0.05):
    """Adapters that do something."""
    chance = torch.Generator().manual_seed(3)
    state = {n: t.clone() for n, t in method.state().items()}
    for name, tensor in state.items():
        if name.endswith(".up"):
            state[name] = scale * torch.randn(tensor.shape, generator=chance)
    method.load(state)
    return method


@pytest.mark.parametrize("ids", [None, IDS], ids=["all", "some"])
def test_it_starts_at_the_target_and_costs_what_the_heads_cost(target, ids):
    checkpoint, batch = heads_of("target", ids), batch_of(target)
    alone = ParallelTraining(checkpoint, target, LOSSES, lambda *_: None).loss(batch, 0)
    for warm in (0, 5):
        found = training(target, checkpoint, warm, head_weight=0.2).loss(batch, 0)
        assert found.loss.item() == pytest.approx(0.2 * alone.loss.item(), abs=1e-4)
        for one, other in zip(found.depths, alone.depths, strict=True):
            assert one.loss.item() == pytest.approx(other.loss.item(), abs=1e-4)
            assert one.alpha.item() == pytest.approx(other.alpha.item(), abs=1e-4)
            assert one.agreement.item() == other.agreement.item()


def test_what_the_target_moved_by_is_kl_of_original_and_tuned(target):
    method, batch = moved(training(target, heads_of("target"), head_weight=0.0)), batch_of(target)
    found = method.loss(batch, 0)
    rows = [4, 5, 6, 7, 12, 13, 14]
    method.export(target.location.path.parent / "out")
    tuned = load_model(locate(str(target.location.path.parent / "out")), dtype="float32").model
    lines = lines_of(LENGTHS, VOCABULARY)
    own = torch.cat([run(tuned, line)[0] for line in lines])[rows].double().log_softmax(1)
    original = batch.states[FINAL][rows] @ target.model.get_output_embeddings().weight.T
    original = original.double().log_softmax(1)
    wanted = (original.exp() * (original - own)).sum(1).mean().item()
    assert wanted > 0.01
    assert found.loss.item() == pytest.approx(wanted, rel=1e-3)
    # Acceptance is by the tuned target, which verifies.
    heads = build_parallel_heads(heads_of("target"), target, vocabulary=VOCABULARY)
    states = torch.cat([run(tuned, line)[1][-1] for line in lines])
    for head, one in enumerate(found.depths):
        read = states[[row - 1 - head for row in rows]]
        draft = heads(read, HEADS)[:, head].double().softmax(1)
        alpha = torch.minimum(own.exp(), draft).sum(1).mean().item()
        assert one.alpha.item() == pytest.approx(alpha, abs=1e-4)


def test_heads_alone_at_first_then_both(target):
    method, batch = training(target, heads_of("own", IDS), 1), batch_of(target)
    optimiser = torch.optim.AdamW(method.groups(1e-2), weight_decay=0.1)
    for step in range(2):
        before = {name: tensor.clone() for name, tensor in method.state().items()}
        optimiser.zero_grad()
        method.loss(batch, step).loss.backward()
        # Every parameter takes part in every step, as optimisers and other processes expect.
        assert all(p.grad is not None for p in method.module.parameters() if p.requires_grad)
        optimiser.step()
        after = method.state()
        changed = {name for name in before if not torch.equal(before[name], after[name])}
        heads = {name for name in before if name.startswith("heads.")}
        assert heads <= changed
        assert bool(changed - heads) is (step == 1)


def test_two_learning_rates(target):
    method = training(target, heads_of("target"))
    groups = method.groups(0.5)
    rates = {id(p): group["lr"] for group in groups for p in group["params"]}
    trained = {n: p for n, p in method.module.named_parameters() if p.requires_grad}
    assert rates.keys() == {id(p) for p in trained.values()}
    assert {rates[id(p)] for n, p in trained.items() if n.startswith("heads.")} == {0.5}
    assert {rates[id(p)] for n, p in trained.items() if not n.startswith("heads.")} == {1e-3}


def test_the_target_itself_stays(target):
    before = {name: tensor.clone() for name, tensor in target.model.state_dict().items()}
    method = training(target, heads_of("target"))
    batch = batch_of(target)
    optimiser = torch.optim.SGD(method.groups(0.1))
    for _ in range(2):
        optimiser.zero_grad()
        method.loss(batch, 0).loss.backward()
        optimiser.step()
    after = target.model.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert any(float(tensor.abs().max()) > 0 for n, tensor in adapters(method).items() if "up" in n)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("projection", ["target", "own", "one"])
@pytest.mark.parametrize("ids", [None, IDS], ids=["all", "some"])
def test_one_folder_is_target_and_heads(target_of, tmp_path, projection, ids, tied):
    target = target_of(tie_word_embeddings=tied)
    checkpoint = heads_of(projection, ids)
    method = moved(training(target, checkpoint))
    folder = tmp_path / "out"
    method.export(folder)
    written = load_model(locate(str(folder)), dtype="float32")
    assert written.real_vocab_size == target.real_vocab_size
    assert written.config.tie_word_embeddings is tied
    batch = batch_of(target)
    lines = lines_of(LENGTHS, VOCABULARY)
    states = torch.cat([run(written.model, line)[1][-1] for line in lines])
    rows = method.rows(batch)
    found = read_head(
        locate(str(folder)),
        families=("medusa",),
        target=TargetShape.of(written.config),
        dtype="float32",
    )
    assert (found.layout, found.config.heads, list(found.oddities)) == ("merged", HEADS, [])
    network = build_parallel_heads(found, written, vocabulary=VOCABULARY)
    for head, logits in enumerate(method.logits(batch, rows)):
        wide = network(states[rows - 1 - head], HEADS)[:, head]
        wanted = wide if ids is None else wide[:, ids]
        torch.testing.assert_close(logits, wanted, atol=2e-3, rtol=1e-3)


def test_everything_is_written_in_the_targets_type(target, tmp_path):
    rough = load_model(target.location, dtype="bfloat16")
    method = Medusa2Training(heads_of("own"), rough, Joint(LOSSES, 4, 0, 1e-3))
    assert {p.dtype for p in method.module.parameters() if p.requires_grad} == {torch.float32}
    batch = batch_of(target)
    found = method.loss(batch, 0)
    found.loss.backward()
    method.export(tmp_path / "out")
    stored = load_file(tmp_path / "out" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    # Adapters at zero: the target as it was, and the heads beside it.
    before = rough.model.state_dict()
    assert all(torch.equal(stored[name], before[name]) for name in before if name in stored)
    assert "medusa_head.2.1.weight" in stored


def test_state_goes_back_and_candidates_are_counted(target):
    method, batch = moved(training(target, heads_of("target"))), batch_of(target)
    other = training(target, heads_of("target", seed=4))
    assert method.loss(batch, 0).loss.item() != other.loss(batch, 0).loss.item()
    other.load(method.state())
    assert method.loss(batch, 0).loss.item() == other.loss(batch, 0).loss.item()
    accuracies = rank_accuracies(other, [batch])
    rows = method.rows(batch)
    best = [logits.argmax(1) for logits in method.logits(batch, rows)]
    wanted = [(one == batch.ids[rows + 1]).float().mean().item() for one in best]
    assert [row[0] for row in accuracies] == pytest.approx(wanted)


def test_a_batch_without_rows(target):
    method = training(target, heads_of("target"))
    found = method.loss(captured(target, lines_of((4,), VOCABULARY), (3,)), 0)
    found.loss.backward()
    assert (found.loss.item(), found.rows) == (0.0, 0)


def test_soft_labels_are_the_original_targets(target):
    how = Joint(HeadLosses((1.0, 1.0, 1.0), forward_kl), 4, 0, 1e-3, head_weight=1.0)
    batch = batch_of(target)
    tuned = moved(Medusa2Training(heads_of("target"), target, how), scale=0.02)
    found = tuned.loss(batch, 0)
    rows = tuned.rows(batch)
    law = batch.states[FINAL][rows] @ target.model.get_output_embeddings().weight.T
    law = law.double().softmax(1)
    for head, logits in enumerate(tuned.logits(batch, rows)):
        wanted = -(law * logits.double().log_softmax(1)).sum(1).mean().item()
        assert found.depths[head].loss.item() == pytest.approx(wanted, rel=1e-4)

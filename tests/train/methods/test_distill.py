"""Distillation: the student that it starts with, what it is held against, and what it writes."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from specbench.errors import SpecbenchError, UsageError
from specbench.models.load import load_model
from specbench.models.locate import locate
from specbench.train.losses.divergences import forward_kl
from specbench.train.methods.distill import Distilling, DistillTraining
from specbench.train.methods.student import chosen_layers, every_nth
from tests.models.families import build
from tests.models.heads.tiny_heads import VOCABULARY, loaded, tiny_model
from tests.train.methods.captured import Recorder, captured, lines_of, run
from tests.train.methods.conftest import LAYERS

pytestmark = pytest.mark.usefixtures("one_thread")

LENGTHS, ANSWERS = (8, 6), (4, 2)
ROWS = [4, 5, 6, 10, 11, 12]


def batch_of(target):
    lines = lines_of(LENGTHS, VOCABULARY)
    return captured(target, lines, ANSWERS), lines


def training(target, layers=2, loss=forward_kl, **changes):
    return DistillTraining(every_nth(target, layers), target, Distilling(loss, **changes))


@pytest.mark.parametrize(
    ("count", "layers", "wanted"),
    [
        (30, 4, [0, 10, 19, 29]),
        (8, 8, list(range(8))),
        (5, 3, [0, 2, 4]),
        (5, 2, [0, 4]),
        (5, 1, [0]),
    ],
)
def test_layers_are_evenly_spaced(count, layers, wanted):
    assert chosen_layers(count, layers) == wanted


@pytest.mark.parametrize("layers", [0, LAYERS + 1])
def test_layers_that_the_target_does_not_have(target, layers):
    with pytest.raises(UsageError, match=rf"head.layers = {layers}: .* has {LAYERS} layers"):
        every_nth(target, layers)


@pytest.mark.parametrize("tied", [True, False])
def test_a_student_is_the_target_with_some_of_its_layers(target_of, tied):
    target = target_of(tie_word_embeddings=tied)
    student = every_nth(target, 2)
    # Three of the four layers taken out, by hand: the first and the last are left.
    wanted = tiny_model("llama", num_hidden_layers=2, tie_word_embeddings=tied)
    state = {
        name.replace(f"layers.{LAYERS - 1}.", "layers.1."): tensor
        for name, tensor in target.model.state_dict().items()
        if ".layers." not in name or ".layers.0." in name or f".layers.{LAYERS - 1}." in name
    }
    wanted.load_state_dict(state)
    batch, lines = batch_of(target)
    logits = torch.cat([run(wanted, line)[0] for line in lines])[ROWS]
    recorder = Recorder()
    DistillTraining(student, target, Distilling(recorder)).loss(batch, 0)
    torch.testing.assert_close(recorder.logits[0], logits, atol=1e-4, rtol=1e-4)
    assert student.config.num_hidden_layers == 2
    assert (student.lm_head.weight is student.model.embed_tokens.weight) is tied


def test_kinds_of_layers_go_with_them():
    target = loaded(build("gemma3"))
    student = every_nth(target, 2)
    assert target.config.layer_types == ["sliding_attention", "full_attention", "sliding_attention"]
    assert student.config.layer_types == ["sliding_attention", "sliding_attention"]
    assert [layer.self_attn.layer_idx for layer in student.model.layers] == [0, 1]
    mixed = every_nth(loaded(tiny_model("deepseek")), 2)
    # The first layer is dense, the last has experts: so it is in the student.
    assert mixed.config.first_k_dense_replace == 1
    kinds = [hasattr(layer.mlp, "experts") for layer in mixed.model.layers]
    assert kinds == [False, True]


def test_rows_are_held_against_the_targets_same_rows(target):
    batch, lines = batch_of(target)
    recorder = Recorder()
    found = training(target, loss=recorder).loss(batch, 0)
    assert found.rows == len(ROWS)
    law = torch.cat([run(target.model, line)[0] for line in lines])[ROWS].softmax(1)
    (seen,) = recorder.targets
    torch.testing.assert_close(seen.probs, law, atol=1e-5, rtol=1e-3)
    joined = [token for line in lines for token in line]
    assert seen.token.tolist() == [joined[row + 1] for row in ROWS]


def test_whole_conversations_are_judged_from_their_first_row(target):
    batch, _ = batch_of(target)
    assert training(target, whole=True).loss(batch, 0).rows == sum(LENGTHS) - 2


def test_a_student_with_all_layers_is_always_accepted(target):
    batch, _ = batch_of(target)
    for changes in ({}, {"on_policy": 1.0}, {"temperature": 0.6}):
        (found,) = training(target, LAYERS, **changes).loss(batch, 3).depths
        assert found.alpha.item() == pytest.approx(1, abs=1e-4)
        assert found.agreement.item() == 1


def test_both_laws_at_a_temperature(target):
    batch, lines = batch_of(target)
    here, at_one = Recorder(), Recorder()
    student = every_nth(target, 2)
    DistillTraining(student, target, Distilling(here, temperature=0.5)).loss(batch, 0)
    DistillTraining(student, target, Distilling(at_one)).loss(batch, 0)
    torch.testing.assert_close(here.logits[0], 2 * at_one.logits[0])
    law = (2 * torch.cat([run(target.model, line)[0] for line in lines])[ROWS]).softmax(1)
    torch.testing.assert_close(here.targets[0].probs, law, atol=1e-5, rtol=1e-3)


def test_rows_that_one_side_pads_more_than_the_other(target_of):
    for more, student_more in ((0, 9), (9, 0)):
        target = target_of(vocab_size=VOCABULARY + more)
        student = tiny_model("llama", num_hidden_layers=2, vocab_size=VOCABULARY + student_more)
        batch, lines = batch_of(target)
        recorder = Recorder()
        how = Distilling(recorder, temperature=0.5)
        DistillTraining(student, target, how).loss(batch, 0)
        # Padding has no token: on both sides the law is over the tokenizer's ids.
        law = 2 * torch.cat([run(target.model, line)[0] for line in lines])[ROWS, :VOCABULARY]
        torch.testing.assert_close(
            recorder.targets[0].probs[:, :VOCABULARY], law.softmax(1), atol=1e-5, rtol=1e-3
        )
        mine = 2 * torch.cat([run(student, line)[0] for line in lines])[ROWS, :VOCABULARY]
        torch.testing.assert_close(
            recorder.logits[0].softmax(1)[:, :VOCABULARY], mine.softmax(1), atol=1e-5, rtol=1e-3
        )
        again = Recorder()
        DistillTraining(student, target, Distilling(again, on_policy=1.0)).loss(batch, 0)
        assert (again.targets[0].token < VOCABULARY).all()


def test_a_student_that_cannot_say_all_tokens_is_refused(target):
    student = tiny_model("llama", num_hidden_layers=2, vocab_size=100)
    with pytest.raises(UsageError, match=r"has 100 vocabulary rows.*says 263 tokens"):
        DistillTraining(student, target, Distilling(forward_kl))


@pytest.mark.parametrize("tied", [True, False])
def test_frozen_embeddings_stay(target_of, tied):
    target = target_of(tie_word_embeddings=tied)
    batch, _ = batch_of(target)
    for freeze in (False, True):
        method = training(target, freeze_embeddings=freeze)
        before = {name: tensor.clone() for name, tensor in method.module.state_dict().items()}
        optimiser = torch.optim.SGD(method.groups(0.1))
        method.loss(batch, 0).loss.backward()
        optimiser.step()
        after = method.module.state_dict()
        still = {name for name in before if torch.equal(before[name], after[name])}
        ends = {"model.embed_tokens.weight"} | ({"lm_head.weight"} if tied else set())
        assert still == (ends if freeze else set())
    assert {p.grad for p in target.model.parameters()} == {None}


def test_export_loads_as_a_draft_model(target, tmp_path):
    method = training(target, 3)
    with torch.no_grad():
        for parameter in method.module.parameters():
            parameter.mul_(1.01)
    method.export(tmp_path / "draft")
    draft = load_model(locate(str(tmp_path / "draft")), dtype="float32")
    assert draft.tokenizer.get_vocab() == target.tokenizer.get_vocab()
    assert draft.eos_ids == target.eos_ids
    batch, lines = batch_of(target)
    recorder = Recorder()
    DistillTraining(method.module, target, Distilling(recorder)).loss(batch, 0)
    logits = torch.cat([run(draft.model, line)[0] for line in lines])[ROWS]
    torch.testing.assert_close(recorder.logits[0], logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("tied", [True, False])
def test_export_in_fewer_bits(target_of, tmp_path, tied):
    target = target_of(tie_word_embeddings=tied)
    method = training(target, dtype=torch.bfloat16)
    method.export(tmp_path / "draft")
    stored = load_file(tmp_path / "draft" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    assert ("lm_head.weight" in stored) is not tied
    draft = load_model(locate(str(tmp_path / "draft"))).model
    assert draft.dtype == torch.bfloat16
    mine = method.module.state_dict()
    for name, tensor in draft.state_dict().items():
        assert torch.equal(tensor, mine[name].bfloat16())
    assert {p.dtype for p in method.module.parameters()} == {torch.float32}


def test_a_place_that_cannot_be_written(target, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecbenchError, match=r"draft could not be written"):
        training(target).export(tmp_path / "file" / "draft")


def test_state_goes_back(target):
    first, second = training(target), training(target)
    with torch.no_grad():
        for parameter in first.module.parameters():
            parameter.mul_(1.1)
    second.load(first.state())
    batch, _ = batch_of(target)
    assert first.loss(batch, 0).loss.item() == second.loss(batch, 0).loss.item()


def test_a_batch_without_rows(target):
    method = training(target, on_policy=1.0)
    found = method.loss(captured(target, lines_of((4,), VOCABULARY), (4,)), 0)
    found.loss.backward()
    assert (found.loss.item(), found.rows) == (0.0, 0)

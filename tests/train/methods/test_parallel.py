"""Parallel heads in training against the heads of inference, row by row, and counted by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from specbench.decoding.shapes.parse import parse_shape
from specbench.models.heads.configs import FINAL, HeadCheckpoint, MedusaConfig
from specbench.models.heads.medusa import build_parallel_heads
from specbench.train.losses.divergences import forward_kl, token_cross_entropy
from specbench.train.methods.accuracies import RANKS, rank_accuracies
from specbench.train.methods.parallel import HeadLosses, ParallelTraining
from tests.models.heads.tiny_heads import VOCABULARY, loaded, tiny_model
from tests.train.methods.captured import Recorder, captured, lines_of

pytestmark = pytest.mark.usefixtures("one_thread")

HEADS, SIZE = 3, 32
LENGTHS, ANSWERS = (9, 7), (4, 2)
ROWS = [(0, 4), (0, 5), (0, 6), (0, 7), (1, 3), (1, 4), (1, 5)]
"""Judged rows: behind the first tokens of the answers, and never before row 3."""
IDS = list(range(1, VOCABULARY, 4))


def heads_of(projection: str, ids: list[int] | None = None, seed: int = 0) -> HeadCheckpoint:
    chance = torch.Generator().manual_seed(seed)

    def noise(*shape):
        return 0.3 * torch.randn(*shape, generator=chance)

    rows = VOCABULARY if ids is None else len(ids)
    tensors = {}
    for head in range(HEADS):
        tensors[f"heads.{head}.blocks.0.weight"] = noise(SIZE, SIZE)
        tensors[f"heads.{head}.blocks.0.bias"] = noise(SIZE)
        if projection == "own":
            tensors[f"heads.{head}.projection.weight"] = noise(rows, SIZE)
    if projection == "one":
        tensors["projection.weight"] = noise(rows, SIZE)
    if ids is not None:
        tensors["target_ids"] = torch.tensor(ids)
    config = MedusaConfig(SIZE, VOCABULARY, rows, HEADS, 1, projection, True)
    return HeadCheckpoint("medusa", "here", config, tensors, name="tiny heads")


@pytest.fixture(scope="module")
def tiny():
    return loaded(tiny_model("llama"))


def training(checkpoint, tiny, loss, **changes):
    how = HeadLosses((1.0, 0.8, 0.64), loss, **changes)
    return ParallelTraining(checkpoint, tiny, how, lambda head, folder: None)


def batch_of(tiny):
    lines = lines_of(LENGTHS, VOCABULARY)
    return captured(tiny, lines, ANSWERS), lines


@pytest.mark.parametrize("projection", ["target", "one", "own"])
@pytest.mark.parametrize("ids", [None, IDS], ids=["all", "some"])
def test_every_head_says_what_inference_says(projection, ids, tiny):
    checkpoint = heads_of(projection, ids)
    batch, _ = batch_of(tiny)
    recorder = Recorder()
    found = training(checkpoint, tiny, recorder).loss(batch, 0)
    assert found.rows == len(ROWS)
    network = build_parallel_heads(checkpoint, tiny, vocabulary=VOCABULARY)
    for head in range(HEADS):
        for place, (line, row) in enumerate(ROWS):
            # Head i reads t and predicts the token at t + 2 + i, row t + 1 + i of the target.
            t = LENGTHS[0] * line + row - 1 - head
            wide = network(batch.states[FINAL][t][None], HEADS)[0, head]
            wanted = wide if ids is None else wide[ids]
            torch.testing.assert_close(recorder.logits[head][place], wanted, atol=1e-5, rtol=1e-5)


def test_rows_and_tokens_that_heads_are_held_against(tiny):
    batch, lines = batch_of(tiny)
    recorder = Recorder()
    training(heads_of("target"), tiny, recorder).loss(batch, 0)
    for target in recorder.targets:
        assert target.token.tolist() == [lines[line][row + 1] for line, row in ROWS]


def test_published_loss_by_definition(tiny):
    batch, lines = batch_of(tiny)
    checkpoint = heads_of("own")
    found = training(checkpoint, tiny, token_cross_entropy).loss(batch, 0)
    network = build_parallel_heads(checkpoint, tiny, vocabulary=VOCABULARY)
    means = []
    for head in range(HEADS):
        logs = [
            network(batch.states[FINAL][LENGTHS[0] * line + row - 1 - head][None], HEADS)[0, head]
            .log_softmax(0)[lines[line][row + 1]]
            .item()
            for line, row in ROWS
        ]
        means.append(-sum(logs) / len(logs))
    assert [one.loss.item() for one in found.depths] == pytest.approx(means, rel=1e-4)
    total = means[0] + 0.8 * means[1] + 0.64 * means[2]
    assert found.loss.item() == pytest.approx(total, rel=1e-4)


def test_blocks_and_own_projections_move_and_the_targets_stays(tiny):
    batch, _ = batch_of(tiny)
    for projection in ("target", "one", "own"):
        checkpoint = heads_of(projection, IDS)
        method = training(checkpoint, tiny, forward_kl)
        optimiser = torch.optim.SGD(method.groups(0.5))
        method.loss(batch, 0).loss.backward()
        optimiser.step()
        after, before = method.checkpoint().tensors, checkpoint.tensors
        moved = {name for name in before if not torch.equal(after[name], before[name])}
        assert moved == before.keys() - {"target_ids"}
    assert {p.grad for p in tiny.model.parameters()} == {None}


def test_a_head_that_repeats_the_target_on_repeated_states(tiny):
    """Blocks of zero say the target's own row of t: with equal states everything is accepted."""
    checkpoint = heads_of("target")
    zero = {name: torch.zeros_like(tensor) for name, tensor in checkpoint.tensors.items()}
    batch, _ = batch_of(tiny)
    same = batch.states[FINAL][:1].expand(sum(LENGTHS), -1).contiguous()
    logits = same @ tiny.model.get_output_embeddings().weight.T
    batch = replace(batch, states={FINAL: same}, lse=logits.logsumexp(1), best=logits.argmax(1))
    found = training(replace(checkpoint, tensors=zero), tiny, forward_kl).loss(batch, 0)
    for one in found.depths:
        assert (one.alpha.item(), one.agreement.item()) == (pytest.approx(1, abs=1e-5), 1)


def test_a_batch_without_rows(tiny):
    batch = captured(tiny, lines_of((4,), VOCABULARY), (3,))
    method = training(heads_of("target"), tiny, forward_kl)
    found = method.loss(batch, 0)
    found.loss.backward()
    assert (found.loss.item(), found.rows) == (0.0, 0)
    assert all(p.grad is not None for p in method.module.parameters())


def test_accuracies_by_head_and_rank_are_counted(tiny, tmp_path):
    checkpoint = heads_of("own", IDS)
    batches = [batch_of(tiny)[0], captured(tiny, lines_of((8,), VOCABULARY, 7), (3,))]
    # Make the first head right at rank 0 once and at rank 2 once.
    network = build_parallel_heads(checkpoint, tiny, vocabulary=VOCABULARY)
    ids = batches[0].ids.clone()
    for place, rank in ((4, 0), (6, 2)):
        best = network(batches[0].states[FINAL][place - 1][None], 1)[0, 0]
        ids[place + 1] = best.topk(RANKS).indices[rank]
    batches[0] = replace(batches[0], ids=ids)
    found = rank_accuracies(training(checkpoint, tiny, forward_kl), batches)
    assert [len(row) for row in found] == [RANKS] * HEADS
    starts, firsts = (0, LENGTHS[0], 0), ((0, 4, 8), (0, 3, 6), (1, 3, 7))
    counts = torch.zeros(HEADS, RANKS)
    rows = 0
    for start, (number, first, end) in zip(starts, firsts, strict=True):
        for row in range(first, end):
            rows += 1
            for head in range(HEADS):
                state = batches[number].states[FINAL][start + row - 1 - head]
                order = network(state[None], HEADS)[0, head].argsort(descending=True)[:RANKS]
                counts[head] += order == batches[number].ids[start + row + 1]
    torch.testing.assert_close(torch.tensor(found), counts / rows)
    assert found[0][0] >= 1 / rows
    assert found[0][2] >= 1 / rows
    # What is written to a file is what a search reads.
    file = tmp_path / "accuracies.json"
    file.write_text(json.dumps({"accuracies": found}))
    assert parse_shape(f"best_first:2:{file}", "arm").depth == 1


def test_no_rows_give_no_accuracies(tiny):
    assert rank_accuracies(training(heads_of("target"), tiny, forward_kl), []) == []

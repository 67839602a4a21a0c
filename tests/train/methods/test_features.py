"""Training of EAGLE and MTP heads: what is unrolled is what inference computes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specbench.models.heads.configs import FINAL, HeadCheckpoint
from specbench.train.losses.divergences import forward_kl
from specbench.train.methods.features import FeatureTraining, Unrolling
from tests.models.heads.agreement import Runner
from tests.models.heads.tiny_heads import (
    VOCABULARY,
    eagle_config,
    eagle_shapes,
    loaded,
    mtp_config,
    mtp_shapes,
    random_tensors,
    tiny_model,
)
from tests.train.methods.captured import Recorder, captured, lines_of

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 3
LENGTHS, ANSWERS = (9, 6), (4, 2)
DRAFTED = 48


def eagle(version: int, own: list[str] | None = None, **changes) -> HeadCheckpoint:
    config = eagle_config(version, **changes)
    tensors = random_tensors(eagle_shapes(config, own or []))
    if config.draft_vocabulary < VOCABULARY:
        tensors["target_ids"] = torch.arange(3, 3 + 5 * DRAFTED, 5)
    return HeadCheckpoint(f"eagle{version}", "here", config, tensors, name="tiny")


def mtp(family: str, recycle: str):
    target = loaded(tiny_model(family))
    config = mtp_config(family, target, recycle=recycle)
    tensors = random_tensors(mtp_shapes(config))
    return HeadCheckpoint("mtp", "nextn", config, tensors, name="tiny"), target


LLAMA = loaded(tiny_model("llama"))
CASES = {
    "eagle1": lambda: (eagle(1, fc_bias=True), LLAMA),
    "eagle1 with norms": lambda: (eagle(1, input_norm=True, final_norm=True), LLAMA),
    "eagle1, two layers": lambda: (eagle(1, layers=2), LLAMA),
    "eagle3": lambda: (eagle(3), LLAMA),
    "eagle3 with its own rows": lambda: (
        eagle(3, ["lm_head.weight"], draft_vocabulary=DRAFTED),
        LLAMA,
    ),
    "eagle3 with the target's rows": lambda: (eagle(3, draft_vocabulary=DRAFTED), LLAMA),
    "eagle3, normed output": lambda: (eagle(3, recycle="post_norm", fc_norm=True), LLAMA),
    "mimo, output": lambda: mtp("mimo", "pre_norm"),
    "mimo, normed output": lambda: mtp("mimo", "post_norm"),
    "mimo, target": lambda: mtp("mimo", "target"),
    "deepseek": lambda: mtp("deepseek", "pre_norm"),
}


def unrolling(loss, steps=STEPS, **changes) -> Unrolling:
    return Unrolling(steps, tuple(0.5**step for step in range(steps)), loss, **changes)


def nowhere(checkpoint, folder):
    raise AssertionError("nothing is written")


def training(checkpoint, target, how) -> FeatureTraining:
    return FeatureTraining(checkpoint, target, how, nowhere)


def batch_of(checkpoint, target, lengths=LENGTHS, answers=ANSWERS):
    lines = lines_of(lengths, target.config.vocab_size)
    return captured(target, lines, answers, checkpoint.config.taps), lines


@pytest.mark.parametrize("case", CASES)
def test_every_step_is_what_inference_computes_with_the_same_tokens(case):
    checkpoint, target = CASES[case]()
    batch, lines = batch_of(checkpoint, target)
    recorder = Recorder()
    found = training(checkpoint, target, unrolling(recorder, whole=True)).loss(batch, 0)
    features = torch.cat([batch.states[tap] for tap in checkpoint.config.taps], -1)
    rows = [(0, row) for row in range(3, 8)] + [(1, row) for row in range(3, 5)]
    assert found.rows == len(rows)
    ids = checkpoint.tensors.get("target_ids", slice(None))
    first = (0, LENGTHS[0])
    for step in range(STEPS):
        for place, (line, row) in enumerate(rows):
            # The draft begins behind slot t, whose features are true, and takes true tokens.
            t = row - 1 - step
            runner = Runner(checkpoint, target)
            true = features[first[line] : first[line] + t + 1]
            logits = runner.feed({0: (0, true, lines[line][1 : t + 2])})[0]
            if step:
                chain = lines[line][t + 2 : t + 2 + step]
                logits = runner.grow({0: (t + 1, chain, list(range(-1, step - 1)))})[0][-1]
            torch.testing.assert_close(
                recorder.logits[step][place], logits[ids], atol=2e-4, rtol=1e-4
            )


def test_the_target_is_the_row_behind_the_token_at_every_step():
    checkpoint, target = CASES["eagle3 with its own rows"]()
    batch, lines = batch_of(checkpoint, target)
    recorder = Recorder()
    training(checkpoint, target, unrolling(recorder)).loss(batch, 0)
    rows = [4, 5, 6, 7, LENGTHS[0] + 3, LENGTHS[0] + 4]
    ids = checkpoint.tensors["target_ids"].tolist()
    weight = target.model.get_output_embeddings().weight
    law = (batch.states[FINAL][rows] @ weight.T).softmax(1)[:, ids]
    joined = [*lines[0], *lines[1]]
    for seen in recorder.targets:
        torch.testing.assert_close(seen.probs, law, atol=1e-5, rtol=1e-4)
        following = [joined[row + 1] for row in rows]
        wanted = [ids.index(token) if token in ids else -1 for token in following]
        assert seen.token.tolist() == wanted


def test_the_loss_is_the_weighted_sum_over_steps():
    checkpoint, target = CASES["eagle1"]()
    batch, _ = batch_of(checkpoint, target, answers=(4, 3))
    recorder = Recorder()
    training(checkpoint, target, unrolling(recorder)).loss(batch, 0)
    laws = [
        float(forward_kl(law, logits).mean())
        for law, logits in zip(recorder.targets, recorder.logits, strict=True)
    ]
    found = training(checkpoint, target, unrolling(forward_kl, law_weight=0.1)).loss(batch, 0)
    assert [float(one.loss) for one in found.depths] == pytest.approx([0.1 * one for one in laws])
    total = 0.1 * (laws[0] + 0.5 * laws[1] + 0.25 * laws[2])
    assert found.loss.item() == pytest.approx(total, rel=1e-5)
    both = unrolling(forward_kl, law_weight=0.1, feature_weight=0.7)
    states = unrolling(forward_kl, law_weight=0.0, feature_weight=1.0)
    parts = training(checkpoint, target, states).loss(batch, 0).loss.item()
    joined = training(checkpoint, target, both).loss(batch, 0).loss.item()
    assert joined == pytest.approx(total + 0.7 * parts, rel=1e-5)


def test_the_loss_on_states_is_to_the_targets_next_state():
    checkpoint, target = CASES["eagle1"]()
    batch, _ = batch_of(checkpoint, target, (7,), (3,))
    runner = Runner(checkpoint, target)
    wanted = []
    for row in range(3, 6):
        # Slot row - 1 is the last that is fed; what it leaves stands for the state of row.
        runner.feed({0: (0, batch.states[FINAL][:row], batch.ids[1 : row + 1].tolist())})
        gap = (runner.carried[0] - batch.states[FINAL][row]).abs()
        wanted.append(torch.where(gap < 1, gap * gap / 2, gap - 0.5).mean())
    how = unrolling(forward_kl, 1, feature_weight=1.0, law_weight=0.0)
    found = training(checkpoint, target, how).loss(batch, 0)
    assert found.loss.item() == pytest.approx(float(torch.stack(wanted).mean()), rel=1e-4)


def test_both_ends_stay_and_everything_else_moves():
    checkpoint, target = CASES["eagle3 with its own rows"]()
    before = {name: tensor.clone() for name, tensor in checkpoint.tensors.items()}
    method = training(checkpoint, target, unrolling(forward_kl))
    batch, _ = batch_of(checkpoint, target)
    optimiser = torch.optim.SGD(method.groups(1.0))
    method.loss(batch, 0).loss.backward()
    optimiser.step()
    after = method.checkpoint().tensors
    assert after.keys() == before.keys()
    moved = {name for name in before if not torch.equal(after[name], before[name])}
    assert moved == before.keys() - {"lm_head.weight", "target_ids"}
    # What the caller holds is as it was.
    assert all(torch.equal(checkpoint.tensors[name], before[name]) for name in before)
    assert {p.grad for p in target.model.parameters()} == {None}


def test_trained_experts_are_in_the_checkpoint_one_by_one():
    checkpoint, target = CASES["deepseek"]()
    method = training(checkpoint, target, unrolling(forward_kl))
    batch, _ = batch_of(checkpoint, target)
    optimiser = torch.optim.SGD(method.groups(0.5))
    method.loss(batch, 0).loss.backward()
    optimiser.step()
    written = method.checkpoint()
    assert written.tensors.keys() == checkpoint.tensors.keys()
    again, here = Recorder(), Recorder()
    training(written, target, unrolling(again)).loss(batch, 0)
    there = training(checkpoint, target, unrolling(here))
    there.load(method.state())
    there.loss(batch, 0)
    for one, other in zip(again.logits, here.logits, strict=True):
        torch.testing.assert_close(one, other)
    experts = [f"layer.mlp.experts.{n}.gate_proj.weight" for n in range(8)]
    assert any(not torch.equal(written.tensors[n], checkpoint.tensors[n]) for n in experts)


def test_state_goes_back_as_it_was():
    checkpoint, target = CASES["eagle3"]()
    method = training(checkpoint, target, unrolling(forward_kl))
    kept = {name: tensor.clone() for name, tensor in method.state().items()}
    with torch.no_grad():
        for parameter in method.module.parameters():
            if parameter.requires_grad:
                parameter.add_(1.0)
    method.load(kept)
    assert all(torch.equal(method.state()[name], kept[name]) for name in kept)


def test_noise_is_addressed_by_seed_and_step():
    checkpoint, target = CASES["eagle1"]()
    batch, _ = batch_of(checkpoint, target)

    def loss(seed, step, noise=0.1):
        how = unrolling(forward_kl, 1, noise=noise, seed=seed)
        return training(checkpoint, target, how).loss(batch, step).loss.item()

    assert loss(1, 5) == loss(1, 5)
    assert len({loss(1, 5), loss(1, 6), loss(2, 5), loss(1, 5, 0.0)}) == 4


def test_a_batch_without_rows_has_a_loss_of_zero_with_gradients_of_zero():
    checkpoint, target = CASES["eagle3"]()
    method = training(checkpoint, target, unrolling(forward_kl))
    batch, _ = batch_of(checkpoint, target, (5, 3), (4, 2))
    found = method.loss(batch, 0)
    assert (found.loss.item(), found.rows, list(found.depths)) == (0.0, 0, [])
    found.loss.backward()
    trained = [p for p in method.module.parameters() if p.requires_grad]
    assert trained
    assert all(float(p.grad.abs().sum()) == 0 for p in trained)


def test_figures_of_a_perfect_draft():
    """A head whose rows are the target's is always accepted."""
    config = eagle_config(1)
    tensors = {n: torch.zeros_like(t) for n, t in random_tensors(eagle_shapes(config)).items()}
    tensors["fc.weight"][:, 32:] = torch.eye(32)
    checkpoint = HeadCheckpoint("eagle1", "here", config, tensors, name="tiny")
    # The target repeats itself, so that its state of t + 1 is that of t.
    line = [7] * 8
    batch = captured(LLAMA, [line], [3])
    same = batch.states[FINAL][:1].expand(8, -1).contiguous()
    logits = same @ LLAMA.model.get_output_embeddings().weight.T
    batch = replace(batch, states={FINAL: same}, lse=logits.logsumexp(1), best=logits.argmax(1))
    found = training(checkpoint, LLAMA, unrolling(forward_kl)).loss(batch, 0)
    for one in found.depths:
        assert float(one.alpha) == pytest.approx(1, abs=1e-5)
        assert float(one.agreement) == 1
    law = logits[0].softmax(0)
    assert float(found.depths[0].loss) == pytest.approx(float(-(law * law.log()).sum()), rel=1e-4)

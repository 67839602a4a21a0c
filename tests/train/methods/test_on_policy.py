"""Answers that a student draws itself: their law, ends and seeds, and the target's rows."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from scipy.stats import chisquare

from specbench.models.heads.configs import FINAL
from specbench.train.losses.divergences import forward_kl
from specbench.train.methods.distill import Distilling, DistillTraining
from specbench.train.methods.on_policy import FrozenTarget, sampled
from specbench.train.methods.student import every_nth
from specbench.train.methods.vocabulary import DraftVocabulary
from tests.models.heads.tiny_heads import VOCABULARY, tiny_model
from tests.train.methods.captured import Recorder, captured, lines_of, run

pytestmark = pytest.mark.usefixtures("one_thread")

NOBODY: tuple[int, ...] = ()


def say(model, prompts, counts, ends=NOBODY, seed=0, padding=None):
    chance = torch.Generator().manual_seed(seed)
    return sampled(model, padding, prompts, counts, ends, chance)


def test_tokens_follow_the_students_law():
    """First and second token of 3,000 draws against the law that transformers computes."""
    model = tiny_model("llama", num_hidden_layers=2)
    prompt = lines_of((4,), VOCABULARY)[0]
    drawn = say(model, [prompt] * 3000, [2] * 3000)
    law = run(model, prompt)[0][-1].double().softmax(0)
    firsts = Counter(one[0] for one in drawn)
    _fits(firsts, law, 3000)
    (first, count) = firsts.most_common(1)[0]
    seconds = Counter(one[1] for one in drawn if one[0] == first)
    _fits(seconds, run(model, [*prompt, first])[0][-1].double().softmax(0), count)


def _fits(counts, law, total):
    """Tokens with at least five expected draws, and the rest as one cell."""
    kept = [token for token in range(VOCABULARY) if law[token] * total >= 5]
    seen = [counts[token] for token in kept]
    expected = [law[token].item() * total for token in kept]
    seen, expected = [*seen, total - sum(seen)], [*expected, total - sum(expected)]
    assert len(kept) >= 5
    assert chisquare(seen, expected).pvalue > 1e-3


def test_each_ends_at_its_count_or_at_an_end():
    model = tiny_model("llama", num_hidden_layers=2)
    prompts, counts = lines_of((3, 5, 2), VOCABULARY), [4, 1, 6]
    free = say(model, prompts, counts)
    assert [len(one) for one in free] == counts
    end = free[2][3]
    assert end not in free[2][:3]
    ended = say(model, prompts, counts, {end})
    assert ended[2] == free[2][:4]
    # Nobody's draws depend on who has ended.
    for one, whole in zip(ended, free, strict=True):
        assert one == whole[: len(one)]


def test_draws_do_not_depend_on_neighbours_lengths_and_follow_the_seed():
    model = tiny_model("llama", num_hidden_layers=2)
    prompts = lines_of((3, 5), VOCABULARY)
    assert say(model, prompts, [6, 6]) == say(model, prompts, [6, 6])
    assert say(model, prompts, [6, 6], seed=1) != say(model, prompts, [6, 6])
    assert say(model, prompts, [6, 2])[0] == say(model, prompts, [6, 6])[0]


def test_padding_is_never_said():
    model = tiny_model("llama", num_hidden_layers=2)
    padding = torch.ones(VOCABULARY, dtype=torch.bool)
    padding[[5, 9]] = False
    said = say(model, lines_of((3, 4), VOCABULARY), [20, 20], padding=padding)
    assert {token for one in said for token in one} <= {5, 9}


def test_the_targets_rows_are_as_they_would_be_captured(target):
    lines = lines_of((7, 5), VOCABULARY)
    wanted = captured(target, lines, (3, 2))
    teacher = FrozenTarget(target, DraftVocabulary.of(target, None))
    found = teacher.batch(wanted.ids, wanted.lengths, wanted.answers)
    torch.testing.assert_close(found.states[FINAL], wanted.states[FINAL], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found.lse, wanted.lse, atol=1e-4, rtol=1e-4)
    assert torch.equal(found.best, wanted.best)
    assert (found.ids, found.lengths, found.answers) == (wanted.ids, (7, 5), (3, 2))


def test_own_answers_stand_in_for_the_captured_ones(target):
    lines, answers = lines_of((9, 7), VOCABULARY), (4, 3)
    batch = captured(target, lines, answers)
    student = every_nth(target, 2)
    recorder = Recorder()
    method = DistillTraining(student, target, Distilling(recorder, on_policy=1.0, seed=5))
    method.loss(batch, 8)
    seed = 5 * 1_000_003 + 8
    prompts = [line[:answer] for line, answer in zip(lines, answers, strict=True)]
    said = say(student, prompts, [5, 4], target.eos_ids, seed)
    rows, law, tokens = [], [], []
    for prompt, own in zip(prompts, said, strict=True):
        whole = [*prompt, *own]
        rows.append(run(student, whole)[0][len(prompt) : -1])
        law.append(run(target.model, whole)[0][len(prompt) : -1].softmax(1))
        tokens += whole[len(prompt) + 1 :]
    torch.testing.assert_close(recorder.logits[0], torch.cat(rows), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(recorder.targets[0].probs, torch.cat(law), atol=1e-5, rtol=1e-3)
    assert recorder.targets[0].token.tolist() == tokens


def test_no_gradient_comes_from_sampling(target):
    """The gradient is that of the same conversations when they are simply given."""
    lines, answers = lines_of((9,), VOCABULARY), (4,)
    student = every_nth(target, 2)
    own = DistillTraining(student, target, Distilling(forward_kl, on_policy=1.0))
    batch = captured(target, lines, answers)
    own.loss(batch, 2).loss.backward()
    found = {n: p.grad.clone() for n, p in student.named_parameters()}
    student.zero_grad()
    (said,) = say(student, [lines[0][:4]], [5], target.eos_ids, 2)
    given = captured(target, [[*lines[0][:4], *said]], answers)
    DistillTraining(student, target, Distilling(forward_kl)).loss(given, 2).loss.backward()
    for name, parameter in student.named_parameters():
        torch.testing.assert_close(found[name], parameter.grad, atol=1e-4, rtol=1e-3)


def test_the_share_of_steps_is_addressed_by_seed_and_step(target):
    batch = captured(target, lines_of((9,), VOCABULARY), (4,))
    seen = {}
    for seed in (0, 1):
        recorder = Recorder()
        method = DistillTraining(
            every_nth(target, 1), target, Distilling(recorder, on_policy=0.5, seed=seed)
        )
        for step in (*range(20), *range(20)):
            torch.manual_seed(step)
            method.loss(batch, step)
        tokens = [target.token.tolist() for target in recorder.targets]
        assert tokens[:20] == tokens[20:]
        # Captured answers are told by their tokens.
        seen[seed] = [one != batch.ids[5:].tolist() for one in tokens[:20]]
        # Binomial(20, 1/2) lies outside of 3 .. 17 once in 2,500 times; the seeds are fixed.
        assert 3 <= sum(seen[seed]) <= 17
    assert seen[0] != seen[1]


def test_under_autocast_the_pool_keeps_the_students_own_type(target):
    batch = captured(target, lines_of((9,), VOCABULARY), (4,))
    method = DistillTraining(every_nth(target, 1), target, Distilling(forward_kl, on_policy=1.0))
    with torch.autocast("cpu", torch.bfloat16):
        found = method.loss(batch, 0)
    found.loss.backward()
    assert all(p.grad is not None for p in method.module.parameters())

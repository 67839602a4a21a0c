"""One step against AdamW's and Muon's formulas, and against torch's own with accumulation."""

import math

import pytest
import torch
from torch import nn

from specbench.errors import PrerequisiteError
from specbench.train.loop.ranks import Ranks
from specbench.train.loop.settings import Optimising
from specbench.train.loop.step import BrokenLossError, Stepper
from specbench.train.methods.trained import decaying
from tests.train.loop.toy import Toy, weights, write_corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture
def group(corpus):
    return [corpus.load(corpus.conversations[n : n + 2]) for n in (0, 2)]


def how(**changes):
    given = {"warmup": 0.5, "schedule": "constant", "clip_norm": 0.0, "learning_rate": 0.01}
    return Optimising(1, 40, **given | changes)


def gradients(group):
    """Of the mean over batches of their losses, by autograd alone."""
    method = Toy()
    total = sum(method.loss(batch, number).loss for number, batch in enumerate(group))
    (total / len(group)).backward()
    return {n: p.grad.clone() for n, p in method.module.named_parameters() if p.requires_grad}


def test_the_first_step_by_the_formula(group):
    method, grads = Toy(), gradients(group)
    before = weights(method)
    found = Stepper(method, how(weight_decay=0.1), Ranks(), 4).take(group, 0, 0)
    rate = 0.01 * 0.5  # the first of two steps of warm-up
    for name, old in before.items():
        # Both moments are corrected to the gradient and its square: a step is its sign, nearly.
        moved = rate * grads[name] / (grads[name].abs() + 1e-8)
        decayed = old * (1 - rate * 0.1) if old.dim() == 2 else old
        torch.testing.assert_close(method.state()[name], decayed - moved, rtol=1e-5, atol=1e-7)
    assert method.numbers == [0, 1]
    assert float(method.frozen) == 1
    assert found["learning_rate"] == pytest.approx(rate)
    assert found["alpha_1"] == pytest.approx(0.005)  # batches 0 and 1 said 0 and 1/100
    assert found["agreement_1"] == 0.25
    norm = math.sqrt(sum(float(grad.square().sum()) for grad in grads.values()))
    assert found["gradient_norm"] == pytest.approx(norm, rel=1e-5)
    assert found["tokens"] == sum(len(batch.ids) for batch in group)


def test_many_steps_equal_torchs(group):
    method, other = Toy(), Toy()
    stepper = Stepper(method, how(clip_norm=0.3, clip_value=0.05, weight_decay=0.1), Ranks(), 4)
    torchs = torch.optim.AdamW(
        [
            {"params": [other.module.weight], "weight_decay": 0.1},
            {"params": [other.module.bias], "weight_decay": 0.0},
        ],
        lr=0.01,
        betas=(0.9, 0.95),
    )
    for step, share in enumerate((0.5, 1, 1, 1)):
        stepper.take(group, step, 0)
        for settings in torchs.param_groups:
            settings["lr"] = 0.01 * share
        torchs.zero_grad()
        sum(other.loss(b, 2 * step + n).loss / 2 for n, b in enumerate(group)).backward()
        trained = [other.module.weight, other.module.bias]
        torch.nn.utils.clip_grad_norm_(trained, 0.3)
        torch.nn.utils.clip_grad_value_(trained, 0.05)
        torchs.step()
    assert method.numbers == other.numbers
    for name, tensor in method.state().items():
        torch.testing.assert_close(tensor, other.state()[name], rtol=1e-6, atol=1e-7)


def test_a_step_of_muon_goes_as_far_in_all_directions(group):
    method, grads = Toy(), gradients(group)
    before, steep = weights(method), torch.tensor([1, 0.3, 0.1])
    method.module.weight.register_hook(lambda slope: slope * steep)
    Stepper(method, how(optimiser="muon", weight_decay=0.1), Ranks(), 4).take(group, 0, 0)
    rate = 0.01 * 0.5
    old = before["weight"]
    moved = old * (1 - rate * 0.1) - method.state()["weight"]
    # The gradient's own directions, each as far as an AdamW step of usual size: 0.2 * sqrt(3).
    left, sizes, right = torch.linalg.svd(grads["weight"] * steep)
    assert sizes.max() > 5 * sizes.min()
    steps = left.T @ (moved / (rate * 0.2 * math.sqrt(3))) @ right.T
    # Five iterations in bfloat16 bring singular values to about 1, by design no nearer.
    assert (steps.diagonal() > 0.6).all()
    assert (steps.diagonal() < 1.25).all()
    assert (steps - steps.diagonal().diag()).abs().max() < 0.05
    # What is no matrix stays with AdamW.
    slope = grads["bias"]
    expected = before["bias"] - rate * slope / (slope.abs() + 1e-8)
    torch.testing.assert_close(method.state()["bias"], expected, rtol=1e-5, atol=1e-7)


def test_muon_leaves_alone_what_has_a_row_per_token():
    inner, head = nn.Linear(4, 6), nn.Linear(4, 10, bias=False)
    experts = nn.ParameterList([torch.zeros(2, 4, 4)])
    groups = decaying(nn.ModuleList([nn.Embedding(10, 4), inner, head, experts]), 0.1)
    assert [group.get("matrices", False) for group in groups] == [True, False, False]
    assert [[tuple(p.shape) for p in group["params"]] for group in groups] == [
        [(6, 4)],
        [(10, 4), (10, 4), (2, 4, 4)],
        [(6,)],
    ]
    assert [group.get("weight_decay") for group in groups] == [None, None, 0.0]


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_no_number_changes_nothing(group, what):
    method = Toy()
    before = weights(method)
    if what == "loss":
        method.broken = {5}
    else:
        plain = method.loss

        def broken(batch, number):
            # A finite loss with an infinite slope.
            found = plain(batch, number)
            zero = (method.module.bias * 0).abs().sum()
            return type(found)(found.loss + zero.sqrt(), found.depths, found.rows)

        method.loss = broken
    with pytest.raises(BrokenLossError, match="step 3: the loss is") as refused:
        Stepper(method, how(), Ranks(), 4).take(group, 2, 1)
    assert refused.value.step == 3
    # Nothing is clipped here, so that there is nothing to lower.
    assert "lower train.learning_rate or set train.clip_norm in" in refused.value.hint
    assert "goes on from step 1" in refused.value.hint
    assert all(torch.equal(before[name], tensor) for name, tensor in method.state().items())
    assert (refused.value.exit_code, "nan" in refused.value.message) == (1, True)


def test_short_memory_says_what_to_change(group):
    method = Toy()

    def short(batch, number):
        raise RuntimeError("CUDA out of memory. Tried to allocate 20 GiB")

    method.loss = short
    with pytest.raises(PrerequisiteError, match="out of memory with a batch of") as refused:
        Stepper(method, how(), Ranks(), 4).take(group, 0, 0)
    assert "lower train.batch_tokens" in str(refused.value)


def test_products_in_fewer_bits_keep_weights_in_float32(group):
    method, exact = Toy(), Toy()
    Stepper(method, how(autocast=torch.bfloat16), Ranks(), 4).take(group, 0, 0)
    Stepper(exact, how(), Ranks(), 4).take(group, 0, 0)
    assert method.module.weight.dtype == torch.float32
    assert method.module.weight.grad is not None
    assert not torch.equal(method.module.weight.grad, exact.module.weight.grad)
    torch.testing.assert_close(
        method.module.weight.grad, exact.module.weight.grad, rtol=0.1, atol=0.02
    )

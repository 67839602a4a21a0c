"""A few dozen optimiser steps of every method on the answers of a tiny target lower its loss."""

from __future__ import annotations

import pytest
import torch

from specbench.models.heads.configs import HeadCheckpoint
from specbench.train.losses.divergences import LOSSES, forward_kl, token_cross_entropy
from specbench.train.losses.steps import step_weights
from specbench.train.methods.distill import Distilling, DistillTraining
from specbench.train.methods.features import FeatureTraining, Unrolling
from specbench.train.methods.medusa2 import Joint, Medusa2Training
from specbench.train.methods.parallel import HeadLosses, ParallelTraining
from specbench.train.methods.student import every_nth
from tests.models.heads.tiny_heads import (
    VOCABULARY,
    eagle_config,
    eagle_shapes,
    loaded,
    mtp_config,
    random_tensors,
    tiny_model,
)
from tests.train.methods.captured import captured, lines_of
from tests.train.methods.test_parallel import heads_of

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 40
LLAMA = loaded(tiny_model("llama"))
LENGTHS, ANSWERS = (12, 9, 14), (4, 3, 5)
IDS = list(range(2, VOCABULARY, 3))


def eagle(version, loss=forward_kl, **how):
    config = eagle_config(version)
    tensors = random_tensors(eagle_shapes(config))
    if version == 3:
        config = eagle_config(3, draft_vocabulary=len(IDS))
        tensors["target_ids"] = torch.tensor(IDS)
    checkpoint = HeadCheckpoint(f"eagle{version}", "here", config, tensors, name="tiny")
    unrolling = Unrolling(3, tuple(step_weights(3, 0.8, normalised=False)), loss, **how)
    return FeatureTraining(checkpoint, LLAMA, unrolling, print), checkpoint.config.taps


def mtp():
    config = mtp_config("deepseek", LLAMA, recycle="post_norm")
    shapes = {f"{name}.weight": [32] for name in ("enorm", "hnorm", "norm")}
    shapes["eh_proj.weight"] = [32, 64]
    layer = LLAMA.model.model.layers[0].state_dict()
    shapes |= {f"layer.{name}": list(tensor.shape) for name, tensor in layer.items()}
    checkpoint = HeadCheckpoint("mtp", "nextn", config, random_tensors(shapes), name="tiny")
    unrolling = Unrolling(3, tuple(step_weights(3, 0.6, normalised=True)), forward_kl)
    return FeatureTraining(checkpoint, LLAMA, unrolling, print), config.taps


def parallel(loss):
    how = HeadLosses((1.0, 0.8, 0.64), loss)
    checkpoint = heads_of("target", IDS)
    return ParallelTraining(checkpoint, LLAMA, how, print), checkpoint.config.taps


def medusa2():
    how = Joint(HeadLosses((1.0, 0.8, 0.64), token_cross_entropy), 4, STEPS // 4, 2e-3)
    checkpoint = heads_of("target")
    return Medusa2Training(checkpoint, LLAMA, how), checkpoint.config.taps


def distil(**how):
    checkpoint = heads_of("target")
    method = DistillTraining(every_nth(LLAMA, 3), LLAMA, Distilling(forward_kl, **how))
    return method, checkpoint.config.taps


METHODS = {
    "eagle1": lambda: eagle(1, feature_weight=1.0, law_weight=0.1, noise=0.1),
    "eagle3": lambda: eagle(3),
    "mtp": mtp,
    "medusa1": lambda: parallel(token_cross_entropy),
    "self-distilled heads": lambda: parallel(forward_kl),
    "medusa2": medusa2,
    "distill": lambda: distil(),
    "distill, half on policy": lambda: distil(on_policy=0.5),
}


def fitted(method, batch, at=0):
    """Loss before and after, on the same batch at the same step."""
    first = method.loss(batch, at).loss.item()
    optimiser = torch.optim.AdamW(method.groups(3e-3), betas=(0.9, 0.95))
    for step in range(STEPS):
        optimiser.zero_grad()
        method.loss(batch, step).loss.backward()
        optimiser.step()
    return first, method.loss(batch, at).loss.item()


@pytest.mark.parametrize("name", METHODS)
def test_the_loss_falls(name):
    method, taps = METHODS[name]()
    batch = captured(LLAMA, lines_of(LENGTHS, VOCABULARY), ANSWERS, taps)
    alphas = [one.alpha.item() for one in method.loss(batch, 0).depths]
    # Step 0 of joint training would leave out what the target moved by.
    first, last = fitted(method, batch, STEPS if name == "medusa2" else 0)
    assert last < 0.8 * first, (first, last)
    if name not in ("medusa1", "medusa2"):
        # Heads that learn single tokens need not come nearer to the whole law.
        after = [one.alpha.item() for one in method.loss(batch, 0).depths]
        assert all(new > old for old, new in zip(alphas, after, strict=True))


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_every_loss_can_be_trained_with(name):
    method, taps = eagle(3, LOSSES[name])
    batch = captured(LLAMA, lines_of(LENGTHS, VOCABULARY), ANSWERS, taps)
    first, last = fitted(method, batch)
    assert last < first

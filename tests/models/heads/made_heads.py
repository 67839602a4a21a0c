"""Whole heads of every family with random weights, for the fixtures' target."""

from __future__ import annotations

from dataclasses import replace

import torch

from specbench.decoding.protocols import Tap
from specbench.models.heads.configs import EagleConfig, HeadCheckpoint, MedusaConfig, MtpConfig
from specbench.models.heads.layouts.mtp_switches import switches_of
from tests.models.heads import fixtures as made
from tests.models.heads.fixtures import TARGET, noise

ENTERING = (Tap(2, "entering"), Tap(4, "entering"), Tap(5, "entering"))
LEAVING = (Tap(1, "leaving"), Tap(3, "leaving"), Tap(4, "leaving"))


def eagle(version: int, **changes) -> HeadCheckpoint:
    """A head with every tensor that its switches ask for; a smaller vocabulary is projected."""
    config = EagleConfig(
        version, 32, 32, 40, 4, 2, 16, 1, 128, 128, 1e-5, 20000.0, 512, final_norm=version == 3
    )
    if version == 3:
        config = replace(config, taps=ENTERING)
    config = replace(config, **changes)
    width = 64 if version == 3 else 32
    tensors = {"fc.weight": noise(32, 64 if version == 1 else 96)}
    tensors |= made.decoder("layers.0.", width, bias=config.attention_bias)
    if config.attention_bias:
        tensors["layers.0.self_attn.o_proj.bias"] = noise(32)
    if config.fc_bias:
        tensors["fc.bias"] = noise(32)
    if version == 3:
        tensors |= {f"layers.0.{n}.weight": noise(32) for n in ("input_layernorm", "hidden_norm")}
        tensors["norm.weight"] = noise(32)
    if config.norm_before_fc:
        tensors["input_norm.weight"] = noise(96)
    if config.fc_norm:
        tensors |= {f"fc_norm.{i}.weight": noise(32, seed=i) for i in range(3)}
    if config.draft_vocabulary < 128:
        tensors["target_ids"] = torch.tensor(made.USED_IDS)
        tensors["lm_head.weight"] = noise(config.draft_vocabulary, 32)
    return HeadCheckpoint(f"eagle{version}", "here", config, tensors)


def medusa(projection: str, **changes) -> HeadCheckpoint:
    """Two heads."""
    config = replace(MedusaConfig(32, 128, 128, 2, 1, projection, True), **changes)
    tensors = {}
    for i in range(2):
        for j in range(config.blocks):
            tensors[f"heads.{i}.blocks.{j}.weight"] = noise(32, 32, seed=5 * i + j)
            tensors[f"heads.{i}.blocks.{j}.bias"] = noise(32, seed=5 * i + j)
        if projection == "own":
            tensors[f"heads.{i}.projection.weight"] = noise(config.draft_vocabulary, 32, seed=i)
    if projection == "one":
        tensors["projection.weight"] = noise(config.draft_vocabulary, 32)
    if config.draft_vocabulary < 128:
        tensors["target_ids"] = torch.tensor(made.USED_IDS)
    return HeadCheckpoint("medusa", "here", config, tensors)


def mtp(layout: str, model_type: str = "llama") -> HeadCheckpoint:
    """A layer with a layout's switches."""
    s = switches_of(layout, model_type)
    target = replace(TARGET, model_type=model_type)
    config = MtpConfig(s.family, 1, s.order, s.recycle, s.zero_first, target)
    tensors = {f"{n}.weight": noise(32, seed=i) for i, n in enumerate(("enorm", "hnorm", "norm"))}
    tensors |= {"eh_proj.weight": noise(32, 64), "layer.input_layernorm.weight": noise(32)}
    return HeadCheckpoint("mtp", "here", config, tensors | made.decoder("layer.", 32))


def with_map(head: HeadCheckpoint) -> HeadCheckpoint:
    """The head with a map of ``USED_IDS`` and no projection for them."""
    tensors = {**head.tensors, "target_ids": torch.tensor(made.USED_IDS)}
    config = replace(head.config, draft_vocabulary=made.DRAFTED)
    return replace(head, config=config, tensors=tensors)

"""Heads that were trained on a few outputs of a tiny target, so that their drafts are accepted.

Training runs on the reference implementations, never on the modules under test: a module that
reads its tensors in another way than they were trained accepts less.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from specbench.decoding.protocols import Tap
from specbench.models.heads.configs import HeadCheckpoint
from specbench.models.kv_pool import KVPool
from specbench.models.load import LoadedModel
from specbench.models.packed import PackedModel
from specbench.models.packed_batch import Segment, pack
from tests.models.heads.reference_eagle import ReferenceEagle1, ReferenceEagle3
from tests.models.heads.reference_mtp import ReferenceMtp
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
from tests.models.heads.unroll import train

KINDS = ("eagle1", "eagle3", "deepseek", "glm4_moe", "mimo")
"""What ``overfitted`` can train; the last three are MTP families."""

LIVE = 12
"""Ids that the target says; few, so that the last token alone does not tell the next one."""
DRAFT_VOCABULARY = 48
PROMPTS = 4
OUTPUT = 20


@dataclass(frozen=True)
class Overfitted:
    """A head, its target, and what it was trained on.

    Attributes:
        kind: of ``KINDS``.
        checkpoint: float32; without embedding, and without output projection unless it is eagle3.
        target: in memory alone; its rows are the ids of ``tests.models.tiny.write_tokenizer``.
        prompts: token ids.
        outputs: the target's greedy output of each, ``OUTPUT`` tokens.
    """

    kind: str
    checkpoint: HeadCheckpoint
    target: LoadedModel
    prompts: list[list[int]]
    outputs: list[list[int]]

    @property
    def lines(self) -> list[list[int]]:
        """Prompts with their outputs."""
        return [prompt + output for prompt, output in zip(self.prompts, self.outputs, strict=True)]


@functools.cache
def overfitted(kind: str) -> Overfitted:
    """Train a head; a few seconds on one thread, the same every time."""
    target = loaded(_sharp_model("llama" if kind.startswith("eagle") else kind))
    prompts = _prompts()
    found = Overfitted(kind, _untrained(kind, target), target, prompts, _greedy(target, prompts))
    tensors = dict(found.checkpoint.tensors)
    reference = reference_of(replace(found.checkpoint, tensors=tensors), target)
    features = features_of(target, found.lines, found.checkpoint.config.taps)
    train(reference, tensors, features, found.lines, [len(prompt) for prompt in prompts])
    trained = {name: tensor.detach() for name, tensor in tensors.items()}
    return replace(found, checkpoint=replace(found.checkpoint, tensors=trained))


def reference_of(checkpoint: HeadCheckpoint, target: LoadedModel) -> Any:
    """The independent implementation of a head; it reads the checkpoint's tensors as they are."""
    kind = {"eagle1": ReferenceEagle1, "eagle3": ReferenceEagle3, "mtp": ReferenceMtp}
    embedding = target.model.get_input_embeddings().weight
    projection = target.model.get_output_embeddings().weight
    return kind[checkpoint.family](checkpoint.config, checkpoint.tensors, embedding, projection)


def features_of(
    target: LoadedModel, lines: Sequence[list[int]], taps: Sequence[Tap]
) -> list[Tensor]:
    """The target's tapped hidden states [n, F] of every line, joined in order."""
    segments = [Segment(i, 0, len(line)) for i, line in enumerate(lines)]
    ids = torch.tensor([token for line in lines for token in line])
    _, states = _packed(target, len(lines)).forward(pack(segments, ids, "none"), taps)
    joined = torch.cat([states[tap] for tap in taps], 1).clone()
    return list(joined.split([len(line) for line in lines]))


def _packed(target: LoadedModel, slabs: int) -> PackedModel:
    """The target with a pool of its own."""
    model = PackedModel(target.model, "target")
    pool = KVPool(slabs, 64, target.dtype, target.device)
    pool.add_owner("target", model.geometry())
    model.use(pool)
    return model


def _live() -> list[int]:
    chance = torch.Generator().manual_seed(11)
    return (3 + torch.randperm(VOCABULARY - 3, generator=chance)[:LIVE]).tolist()


def _sharp_model(family: str) -> Any:
    """A target that says few tokens, and is sure of them."""
    model = tiny_model(family)
    weight = model.get_output_embeddings().weight
    weight.mul_(0.05)
    weight[_live()] = 2 * torch.randn(
        LIVE, weight.shape[1], generator=torch.Generator().manual_seed(12)
    )
    return model


def _prompts() -> list[list[int]]:
    chance = torch.Generator().manual_seed(13)
    return [
        torch.randint(3, VOCABULARY, (3 + i,), generator=chance).tolist() for i in range(PROMPTS)
    ]


def _greedy(target: LoadedModel, prompts: list[list[int]]) -> list[list[int]]:
    """The target's own continuation of every prompt."""
    model = _packed(target, len(prompts))
    fed, starts = prompts, [0] * len(prompts)
    outputs: list[list[int]] = [[] for _ in prompts]
    for _ in range(OUTPUT):
        segments = [Segment(i, starts[i], len(new)) for i, new in enumerate(fed)]
        ids = torch.tensor([token for new in fed for token in new])
        logits, _ = model.forward(pack(segments, ids, "last"))
        starts = [segment.start + segment.count for segment in segments]
        fed = [[token] for token in logits.argmax(1).tolist()]
        for output, token in zip(outputs, fed, strict=True):
            output += token
    return outputs


def _untrained(kind: str, target: LoadedModel) -> HeadCheckpoint:
    """Random weights; an EAGLE-3 head knows the tokens that the target says, and some more."""
    name = f"tiny-{kind}"
    if kind == "eagle1":
        config = eagle_config(1)
        return HeadCheckpoint(kind, "official", config, _attentive(eagle_shapes(config)), name)
    if kind == "eagle3":
        config = eagle_config(3, draft_vocabulary=DRAFT_VOCABULARY)
        tensors = _attentive(eagle_shapes(config, ["lm_head.weight"]))
        live = _live()
        rest = [token for token in range(5, VOCABULARY, 5) if token not in live]
        ids = sorted([*live, *rest[: DRAFT_VOCABULARY - LIVE]])
        tensors["target_ids"] = torch.tensor(ids)
        return HeadCheckpoint(kind, "official", config, tensors, name)
    mtp = mtp_config(kind, target)
    layout = "mimo" if kind == "mimo" else "nextn"
    return HeadCheckpoint("mtp", layout, mtp, _attentive(mtp_shapes(mtp)), name)


def _attentive(shapes: dict[str, list[int]]) -> dict[str, Tensor]:
    """Weights under which wrong positions and wrong norms tell: sharp attention, uneven norms."""
    tensors = random_tensors(shapes)
    for name in tensors:
        if name.endswith(("q_proj.weight", "q_b_proj.weight", "q_norm.weight")):
            tensors[name] = 4 * tensors[name]
        if name.endswith("o_proj.weight"):
            tensors[name] = 2 * tensors[name]
        if name == "norm.weight":
            tensors[name] = 2 * tensors[name] - 1
    return tensors

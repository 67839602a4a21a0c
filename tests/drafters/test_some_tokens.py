"""Heads of some tokens draft these alone, and the drafter says which they are."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specbench.drafters import build as drafters_build
from specbench.drafters.blockwise import BlockwiseDrafter
from specbench.drafters.eagle.eagle1 import Eagle1Drafter
from specbench.drafters.medusa import MedusaDrafter
from specbench.drafters.mtp import MtpDrafter
from specbench.models.heads.configs import HeadCheckpoint, MedusaConfig
from specbench.verify.greedy import RULE as GREEDY
from tests.drafters.build_contexts import context_of
from tests.drafters.packed_loops import asked, decode_packed
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

pytestmark = pytest.mark.usefixtures("one_thread")

IDS = list(range(5, VOCABULARY, 9))


def checkpoint(drafter, target):
    """A head without a projection, for the tokens ``IDS``."""
    drafted = {"draft_vocabulary": len(IDS)}
    if drafter is MtpDrafter:
        config = mtp_config("mimo", loaded(target), **drafted)
        made = HeadCheckpoint("mtp", "here", config, random_tensors(mtp_shapes(config)))
    elif drafter is Eagle1Drafter:
        config = eagle_config(1, **drafted)
        made = HeadCheckpoint("eagle1", "here", config, random_tensors(eagle_shapes(config)))
    else:
        shapes = {f"heads.{i}.blocks.0.weight": [32, 32] for i in range(3)}
        config = MedusaConfig(32, VOCABULARY, len(IDS), 3, 1, "target", False)
        made = HeadCheckpoint("medusa", "here", config, random_tensors(shapes))
    return replace(made, tensors={**made.tensors, "target_ids": torch.tensor(IDS)})


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("drafter", [MtpDrafter, Eagle1Drafter, MedusaDrafter, BlockwiseDrafter])
def test_only_tokens_of_the_map_are_drafted(monkeypatch, drafter, packed):
    target = tiny_model("mimo" if drafter is MtpDrafter else "llama")
    made = checkpoint(drafter, target)
    monkeypatch.setattr(drafters_build, "locate", lambda *_, **__: None)
    monkeypatch.setattr(drafters_build, "read_head", lambda *_, **__: made)
    context = context_of(target)
    context.vocabulary, context.prepack = VOCABULARY, packed
    built = drafter.build({"model": "some/head"}, context)
    assert built.vocabulary == frozenset(IDS)
    drafted = []
    propose = built.propose

    def seen(rows, budget):
        draft = propose(rows, budget)
        drafted.extend(
            token
            for line, count in zip(draft.tree.ids.tolist(), draft.tree.counts, strict=True)
            for token in line[:count]
        )
        return draft

    built.propose = seen

    def with_pool(pool, _):
        context.use(pool)
        return built

    decode_packed(asked(4, prompts=[[3, 1, 4], [7, 7]]), with_pool, GREEDY, 3, target)
    assert drafted
    assert set(drafted) <= set(IDS)

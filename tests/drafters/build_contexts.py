"""What a drafter is built with, around a tiny random model without files or tokenizer."""

from __future__ import annotations

from typing import Any

import torch

from specbench.drafters.build import BuildContext
from specbench.models.load import LoadedModel
from specbench.models.locate import Location
from specbench.models.packed import PackedModel
from tests.models.families import VOCABULARY, build


def loaded_of(model: Any) -> LoadedModel:
    """A model as if it had been read from a folder."""
    return LoadedModel(
        model=model,
        tokenizer=None,
        config=model.config,
        location=Location("folder", "tiny", None, None, ""),
        dtype=model.dtype,
        device=torch.device("cpu"),
        weight_hash="",
        weight_bytes=0,
        context_limit=128,
        eos_ids=(),
        real_vocab_size=VOCABULARY,
    )


def context_of(model: Any = None) -> BuildContext:
    """An arm's context, on a tiny Llama unless told otherwise."""
    model = model or build("llama")
    packed = PackedModel(model, "target")
    return BuildContext("arm", loaded_of(model), packed, VOCABULARY, prepack=False)

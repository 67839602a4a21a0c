"""A tiny model folder and an engine with every drafter and rule on it."""

from __future__ import annotations

import pytest

from specbench.core.arm import ArmSpec

RULES = ("rejection", "target_match")
OPTIONS = {
    "ngram": {"min_n": 1, "max_n": 3},
    "layer_skip": {"layers": 1},
    "draft_model": {},
}
K = 3


@pytest.fixture(scope="session")
def tiny_target(tmp_path_factory):
    """A two-layer Llama with logits far apart, and a byte-level tokenizer."""
    from tests.models.families import build
    from tests.models.tiny import byte_level_tokens, write_tokenizer

    folder = tmp_path_factory.mktemp("engine") / "tiny"
    model = build(
        "llama",
        vocab_size=len(byte_level_tokens()),
        num_hidden_layers=2,
        eos_token_id=0,
        bos_token_id=1,
        pad_token_id=0,
    )
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def all_arms(folder):
    """Plain, and every drafter with every rule."""
    arms = [ArmSpec("plain")]
    for drafter, options in OPTIONS.items():
        if drafter == "draft_model":
            options = {"model": str(folder)}
        arms += [
            ArmSpec(f"{drafter}-{rule}", drafter, K, rule, drafter_options=options)
            for rule in RULES
        ]
    return arms


@pytest.fixture(scope="session")
def engine(tiny_target):
    """The native engine on the tiny target."""
    from specbench.engines.native import open_engine

    opened = open_engine({"model": str(tiny_target)}, all_arms(tiny_target))
    yield opened
    opened.close()

"""The assisted engine on the tiny target, with arms of every drafter and draft length."""

from __future__ import annotations

import pytest

from specbench.core.arm import ArmSpec
from tests.engines.transformers_assisted.runs import ENGINE, MAX_K, arm


@pytest.fixture(scope="session")
def other_draft(tmp_path_factory):
    """A one-layer model with the target's tokenizer and weights of its own."""
    from tests.models.families import build
    from tests.models.tiny import byte_level_tokens, write_tokenizer

    folder = tmp_path_factory.mktemp("draft") / "other"
    size = len(byte_level_tokens())
    build("llama", seed=5, vocab_size=size, num_hidden_layers=1).save_pretrained(folder)
    write_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def assisted(tiny_target, other_draft):
    """One engine; arms are called drafter-k, ``self`` drafting with the target itself."""
    from specbench.engines.transformers_assisted.engine import open_engine

    arms = [ArmSpec("plain", engine=ENGINE)]
    for k in range(1, MAX_K + 1):
        arms += [
            arm(f"self-{k}", "draft_model", k, model=str(tiny_target)),
            arm(f"other-{k}", "draft_model", k, model=str(other_draft)),
            arm(f"ngram-{k}", "ngram", k, max_n=2),
            arm(f"layer_skip-{k}", "layer_skip", k, layers=1),
        ]
    arms.append(arm("self-0", "draft_model", 0, model=str(tiny_target)))
    opened = open_engine({"model": str(tiny_target)}, arms)
    yield opened
    opened.close()

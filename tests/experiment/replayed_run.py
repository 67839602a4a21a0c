"""A recorded run of a tiny model with arms that draft, and the experiment it came from."""

from __future__ import annotations

import json
from pathlib import Path

from specbench.experiment.load import Flags, load_experiment
from specbench.experiment.prepare import prepare
from specbench.experiment.replay.drafts import Drafts, named_drafts
from specbench.experiment.session import Hooks, Session
from specbench.results.store import RunFolder

EXPERIMENT = """
schema_version = 1
name = "drafts"
[target]
model = "{folder}/tiny"
[workload]
suites = ["{folder}/prompts.jsonl"]
split = "all"
temperatures = [0.0, 0.8]
max_new_tokens = 30
[arm.lookup]
drafter = "ngram"
k = 3
[arm.skip]
drafter = "layer_skip"
k = 2
rule = "target_match"
options = {{ layers = 2 }}
[arm.second]
drafter = "draft_model"
k = 4
options = {{ model = "{folder}/noisy" }}
"""
ITEMS = 3


def drafts(*texts: str) -> Drafts:
    """Drafts as they are named on a command line."""
    return named_drafts(texts, None)


def write_model(folder: Path, noise: float = 0.0) -> None:
    """A tiny model with a byte-level tokenizer; with noise a draft that is often right."""
    import torch

    from tests.models.families import build
    from tests.models.tiny import byte_level_tokens, write_tokenizer

    sizes = {"vocab_size": len(byte_level_tokens()), "max_position_embeddings": 512}
    model = build("llama", **sizes, eos_token_id=0, bos_token_id=1, pad_token_id=0)
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter += noise * torch.randn(parameter.shape, generator=generator)
    model.save_pretrained(folder)
    write_tokenizer(folder)


def write_run(folder: Path) -> RunFolder:
    """Decode all arms of ``experiment.toml`` in ``folder``; the run is in ``folder/results``."""
    write_model(folder / "tiny")
    write_model(folder / "noisy", 0.01)
    rows = [
        {"id": f"p{i}", "category": "all", "turns": [f"say {i} {i} {i}", "and?"]}
        for i in range(ITEMS)
    ]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    experiment = folder / "experiment.toml"
    experiment.write_text(EXPERIMENT.format(folder=folder))
    prepared = prepare(load_experiment(str(experiment), Flags()))
    return Session(prepared, folder / "results").run(Hooks())

"""A model of a published shape with random weights: how fast it decodes before there is one.

Its times are those of the shape; what it says means nothing. With the rule ``synthetic``, which
keeps drafts by coins of a given chance, a pair's speed at any acceptance can be measured before
either of them is trained.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.checkpoint import load_tokenizer, require_torch
from specbench.models.locate import DEMO_MODEL, locate
from specbench.models.shapes.find import Configured, require_model

MARK = "random_weights"
"""Key of ``config.json`` that says so, with the seed."""
BORROWED = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
"""Files of the demo model: a shape has no tokens of its own."""
CONTEXT = 131_072
"""Longest context where the configuration says nothing; it costs nothing here."""
SHARD = "2GB"


def new_model(
    found: Configured, folder: Path, *, layers: int | None = None, dtype: str, seed: int = 0
) -> Path:
    """Write a model folder with random weights and the demo model's tokenizer.

    Args:
        found: the configuration.
        folder: made where it is not; it must hold no ``config.json`` yet.
        layers: the first so many alone, for shapes that are too large; None for all.
        dtype: of the weights, as torch names it.
        seed: of the weights.

    Returns:
        The folder.

    Raises:
        UsageError: a folder in use, or more layers than there are.
        PrerequisiteError: the configuration of a head, one that transformers cannot build, a
            vocabulary smaller than the tokenizer's, or no demo model on this disk.
    """
    torch = require_torch()
    require_model(found)
    if (folder / "config.json").exists():
        raise UsageError(f"{folder} already holds a model", "name another folder")
    demo = locate(DEMO_MODEL)
    assert demo.path is not None
    tokens = len(load_tokenizer(demo.path))
    model = _model(torch, _configured(found, layers, seed), found.name, dtype, seed)
    if (rows := model.get_input_embeddings().num_embeddings) < tokens:
        raise PrerequisiteError(
            f"{found.name} has a vocabulary of {rows}, and the tokenizer has {tokens} tokens",
            "name a shape with a larger vocab_size",
        )
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, max_shard_size=SHARD)
    for name in BORROWED:
        shutil.copyfile(demo.path / name, folder / name)
    # Where answers end goes by the tokenizer.
    shutil.copyfile(demo.path / "generation_config.json", folder / "generation_config.json")
    return folder


def _configured(found: Configured, layers: int | None, seed: int) -> dict[str, Any]:
    config = {"max_position_embeddings": CONTEXT, **found.config, MARK: seed}
    whole = int(config["num_hidden_layers"])
    if layers is not None and not 1 <= layers <= whole:
        raise UsageError(f"{layers} layers of {found.name}, which has {whole}", f"1 to {whole}")
    config["num_hidden_layers"] = kept = layers or whole
    if isinstance(kinds := config.get("layer_types"), list):
        config["layer_types"] = kinds[:kept]
    return config


def _model(torch: Any, config: Mapping[str, Any], name: str, dtype: str, seed: int) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    written = dict(config)
    kind = written.pop("model_type", None)
    try:
        built = AutoConfig.for_model(kind, **written)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return AutoModelForCausalLM.from_config(built, dtype=getattr(torch, dtype))
    except (ValueError, KeyError, ImportError) as error:
        raise PrerequisiteError(
            f"transformers cannot build {name}, a {kind}: {str(error).splitlines()[0]}",
            "name another shape; `specbench roofline` lists those it knows",
        ) from error

"""Tiny checkpoints of every published format, in the names that their own programs write.

Written by hand from the formats' descriptions, not by specbench's writers. Every function makes a
folder and returns what it stored, name -> tensor.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from specbench.models.heads.configs import TargetShape

HIDDEN, LAYERS, VOCABULARY, DRAFTED, INNER = 32, 8, 128, 48, 40
HEADS, KV_HEADS, SIZE = 4, 2, 16
"""Attention; heads times size is not the hidden size."""

TARGET = TargetShape(HIDDEN, LAYERS, VOCABULARY, "llama")
USED_IDS = [3 + 2 * i for i in range(DRAFTED)]
"""Target ids of the drafted tokens."""


def noise(*shape: int, seed: int = 0) -> Tensor:
    """Random values that differ between shapes and seeds."""
    generator = torch.Generator().manual_seed(1000 * seed + sum(shape) + 7 * len(shape))
    return torch.randn(*shape, generator=generator)


def write(
    folder: Path, config: dict[str, Any], tensors: dict[str, Tensor], file: str
) -> dict[str, Tensor]:
    """A folder with a configuration and one weight file, pickled unless it is safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if file.endswith(".safetensors"):
        save_file(tensors, folder / file)
    else:
        torch.save(tensors, folder / file)
    return tensors


def shard(folder: Path, files: dict[str, dict[str, Tensor]], config: dict[str, Any]) -> None:
    """A folder with an index over several safetensors files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    places = {}
    for file, tensors in files.items():
        save_file(tensors, folder / file)
        places |= dict.fromkeys(tensors, file)
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def llama_config(**more: Any) -> dict[str, Any]:
    """The Llama-like configuration that EAGLE checkpoints carry."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": SIZE,
        "vocab_size": VOCABULARY,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "max_position_embeddings": 512,
        **more,
    }


def decoder(prefix: str, width: int, *, bias: bool = False, seed: int = 0) -> dict[str, Tensor]:
    """Attention, MLP and the norm between them of a Llama layer whose queries read ``width``."""
    rows = {"q": HEADS * SIZE, "k": KV_HEADS * SIZE, "v": KV_HEADS * SIZE}
    made = {
        f"{prefix}self_attn.{p}_proj.weight": noise(n, width, seed=seed) for p, n in rows.items()
    }
    if bias:
        made |= {f"{prefix}self_attn.{p}_proj.bias": noise(n, seed=seed) for p, n in rows.items()}
    return made | {
        f"{prefix}self_attn.o_proj.weight": noise(HIDDEN, HEADS * SIZE, seed=seed),
        f"{prefix}mlp.gate_proj.weight": noise(INNER, HIDDEN, seed=seed),
        f"{prefix}mlp.up_proj.weight": noise(INNER, HIDDEN, seed=seed + 1),
        f"{prefix}mlp.down_proj.weight": noise(HIDDEN, INNER, seed=seed),
        f"{prefix}post_attention_layernorm.weight": noise(HIDDEN, seed=seed),
    }


def eagle1(
    folder: Path,
    *,
    bias: bool = True,
    embed: bool = True,
    file: str = "pytorch_model.bin",
    **config: Any,
) -> dict[str, Tensor]:
    """The authors' EAGLE-1/2; Llama-2's configuration does not mention the bias, which is there."""
    tensors = {"fc.weight": noise(HIDDEN, 2 * HIDDEN), **decoder("layers.0.", HIDDEN)}
    if bias:
        tensors["fc.bias"] = noise(HIDDEN)
    if embed:
        tensors["embed_tokens.weight"] = noise(VOCABULARY, HIDDEN)
    given = llama_config(rope_theta=500000.0) | ({} if bias else {"bias": False}) | config
    return write(folder, given, tensors, file)


def speculators_config(kind: str, **more: Any) -> dict[str, Any]:
    """What speculators writes around a layer's configuration."""
    return {
        "speculators_model_type": kind,
        "speculators_version": "0.3.0",
        "tie_word_embeddings": False,
        "transformer_layer_config": llama_config(),
        "speculators_config": {
            "algorithm": kind,
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 5}],
            "verifier": {"name_or_path": "org/target", "architectures": ["LlamaForCausalLM"]},
        },
        **more,
    }


def eagle1_speculators(folder: Path, *, extra_norms: bool = False) -> dict[str, Tensor]:
    """speculators' first EAGLE format: a fusion layer and one transformer layer."""
    tensors = {"fusion_fc.weight": noise(HIDDEN, 2 * HIDDEN), **decoder("transformer.", HIDDEN)}
    if extra_norms:
        tensors["embedding_layernorm.weight"] = noise(HIDDEN)
    given = speculators_config("eagle", fusion_bias=False, layernorms=extra_norms)
    return write(folder, given, tensors, "model.safetensors")


def offsets() -> dict[str, Tensor]:
    """The maps of ``USED_IDS``."""
    mask = torch.zeros(VOCABULARY, dtype=torch.bool)
    mask[USED_IDS] = True
    return {"d2t": torch.tensor(USED_IDS) - torch.arange(DRAFTED), "t2d": mask}


def eagle3_tensors(layer: str = "midlayer.") -> dict[str, Tensor]:
    """An EAGLE-3 head with a draft vocabulary and without an embedding."""
    norms = {
        f"{layer}{n}.weight": noise(HIDDEN, seed=2) for n in ("input_layernorm", "hidden_norm")
    }
    return {
        "fc.weight": noise(HIDDEN, 3 * HIDDEN),
        "norm.weight": noise(HIDDEN, seed=3),
        "lm_head.weight": noise(DRAFTED, HIDDEN),
        **decoder(layer, 2 * HIDDEN),
        **norms,
        **offsets(),
    }


def eagle3(folder: Path, *, file: str = "model.safetensors", **config: Any) -> dict[str, Tensor]:
    """The authors' EAGLE-3: no rope_theta, no layer ids."""
    given = llama_config(draft_vocab_size=DRAFTED) | config
    return write(folder, given, eagle3_tensors(), file)


def eagle3_specforge(
    folder: Path, ids: list[int] | None = None, **config: Any
) -> dict[str, Tensor]:
    """SpecForge's export for SGLang, by default with the layers that it takes."""
    named = {"eagle_aux_hidden_state_layer_ids": ids or [1, LAYERS // 2 - 1, LAYERS - 4]}
    given = llama_config(
        architectures=["LlamaForCausalLMEagle3"],
        draft_vocab_size=DRAFTED,
        rope_theta=1000000.0,
        eagle_config={"use_aux_hidden_state": True, **named},
    )
    return write(folder, given | config, eagle3_tensors(), "model.safetensors")


def eagle3_speculators(
    folder: Path, ids: list[int] | None = None, *, drop: tuple[str, ...] = (), **config: Any
) -> dict[str, Tensor]:
    """speculators' EAGLE-3, which saves the embedding too."""
    tensors = eagle3_tensors("layers.0.") | {"embed_tokens.weight": noise(VOCABULARY, HIDDEN)}
    if config.get("norm_before_fc"):
        tensors["input_norm.weight"] = noise(3 * HIDDEN)
    if config.get("fc_norm"):
        tensors |= {f"fc_norm.{i}.weight": noise(HIDDEN, seed=i) for i in range(3)}
    given = speculators_config(
        "eagle3",
        architectures=["Eagle3DraftModel"],
        draft_vocab_size=DRAFTED,
        norm_before_residual=config.pop("norm_before_residual", False),
        eagle_aux_hidden_state_layer_ids=ids,
        **config,
    )
    kept = {name: tensor for name, tensor in tensors.items() if name not in drop}
    return write(folder, given, kept, "model.safetensors")


def medusa_heads(
    prefix: str = "", heads: int = 5, blocks: int = 1, *, projections: bool = True
) -> dict[str, Tensor]:
    """Medusa heads in the authors' names: a list of lists, the projection behind the blocks."""
    made: dict[str, Tensor] = {}
    for i in range(heads):
        for j in range(blocks):
            made[f"{prefix}{i}.{j}.linear.weight"] = noise(HIDDEN, HIDDEN, seed=10 * i + j)
            made[f"{prefix}{i}.{j}.linear.bias"] = noise(HIDDEN, seed=10 * i + j)
        if projections:
            made[f"{prefix}{i}.{blocks}.weight"] = noise(VOCABULARY, HIDDEN, seed=i)
    return made


def medusa_v1(
    folder: Path, *, file: str = "medusa_lm_head.pt", blocks: int = 1
) -> dict[str, Tensor]:
    """The first Medusa: five heads, of which the configuration mentions two."""
    config = {
        "base_model_name_or_path": "lmsys/vicuna-7b-v1.3",
        "medusa_num_heads": 2,
        "medusa_num_layers": blocks,
        "transformers_version": "4.31.0",
    }
    return write(folder, config, medusa_heads(blocks=blocks), file)


def medusa_v2(folder: Path) -> dict[str, Tensor]:
    """The second training code: blocks alone."""
    config = {"medusa_num_heads": 3, "medusa_num_layers": 1, "version": "2"}
    tensors = medusa_heads(heads=3, projections=False)
    return write(folder, config, tensors, "medusa_lm_head.safetensors")


def small_model() -> dict[str, Tensor]:
    """Some tensors of a whole Llama, enough to be told for one."""
    layers: dict[str, Tensor] = {}
    for i in range(LAYERS):
        layers |= decoder(f"model.layers.{i}.", HIDDEN, seed=i)
        layers[f"model.layers.{i}.input_layernorm.weight"] = noise(HIDDEN, seed=i)
    return {
        "model.embed_tokens.weight": noise(VOCABULARY, HIDDEN, seed=20),
        "lm_head.weight": noise(VOCABULARY, HIDDEN, seed=21),
        "model.norm.weight": noise(HIDDEN, seed=22),
        **layers,
    }


def medusa_merged(folder: Path) -> dict[str, Tensor]:
    """Medusa-2: heads among the tensors of the model that they were trained with, in two shards."""
    heads = medusa_heads("medusa_head.", 3)
    config = llama_config(num_hidden_layers=LAYERS, medusa_num_heads=5)
    shard(folder, {"model-1.safetensors": small_model(), "model-2.safetensors": heads}, config)
    (folder / "tokenizer.json").write_text("{}")
    return heads


def medusa_vllm(
    folder: Path, *, one: bool = False, mapped: bool = True, whole_rows: bool = False
) -> dict[str, Tensor]:
    """vLLM's names, with a smaller vocabulary."""
    rows = VOCABULARY if whole_rows or not mapped else DRAFTED
    tensors = {
        f"blocks.{i}.layers.{j}.weight": noise(HIDDEN, HIDDEN, seed=10 * i + j)
        for i in range(3)
        for j in range(2)
    }
    names = ["lm_head.weight"] if one else [f"lm_heads.{i}.weight" for i in range(3)]
    tensors |= {name: noise(rows, HIDDEN, seed=i) for i, name in enumerate(names)}
    if mapped:
        tensors["token_map"] = torch.tensor(USED_IDS)
    config = {
        "model_type": "medusa",
        "architectures": ["MedusaModel"],
        "hidden_size": HIDDEN,
        "vocab_size": VOCABULARY,
        "truncated_vocab_size": DRAFTED if mapped else VOCABULARY,
        "num_heads": 3,
        "num_hidden_layers": 2,
        "original_lm_head": one,
        "max_paths": 64,
    }
    return write(folder, config, tensors, "model.safetensors")

"""Plans of multi-token prediction layers, most of them among a target's own shards.

Transformers skips these tensors, so they are found by the safetensors index and read one by one.
Sources: ALGORITHMS 3.5 and 4.5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.heads.files import Checkpoint
from specbench.models.heads.layouts.fit import fit_hidden, vocabulary_of
from specbench.models.heads.layouts.llama_config import text_config
from specbench.models.heads.layouts.mtp_names import FRAMES, NEXTN_SHARED
from specbench.models.heads.layouts.mtp_switches import reason, switches_of
from specbench.models.heads.plan import PLAIN_TYPES, Plan, claim, require, require_matrices
from specbench.models.heads.target_facts import Target

_PREFIXES = {
    "nextn": re.compile(r"(model\.layers\.)(\d+)\.eh_proj\.weight"),
    "mimo": re.compile(r"(model\.mtp_layers\.)(\d+)\.input_proj\.weight"),
    "speculators": re.compile(r"(mtp_layers\.)(\d+)\.input_proj\.weight"),
}
BLOCK_SCALE, ROW_SCALE = "weight_scale_inv", "weight_scale"
"""DeepSeek's scales per block, and compressed-tensors' per row; both multiply."""
_FP8 = "F8_E4M3"


def plan_mtp(checkpoint: Checkpoint, layout: str, target: Target | None) -> Plan:
    """MTP layers of DeepSeek-V3, GLM-4.5, MiMo-7B or speculators; the first module is used.

    Raises:
        PrerequisiteError: no such module, unknown or missing tensors, or another target's.
    """
    prefix, modules, number = _modules(checkpoint, layout)
    names = [name for name in checkpoint.files if name.startswith(prefix)]
    scales, weights = _scales(checkpoint, names)
    known = FRAMES[layout] | (NEXTN_SHARED if layout == "nextn" else {})

    def rename(name: str) -> str | None:
        inner = name.removeprefix(prefix)
        return known.get(inner, f"layer.{inner}")

    sources = claim(checkpoint, weights, rename)
    require(checkpoint, sources, *FRAMES[layout].values(), "layer.input_layernorm.weight")
    require_matrices(checkpoint, sources)
    _refuse_quantised(checkpoint, weights, scales)
    config = _config(checkpoint)
    hidden = checkpoint.shape(sources["eh_proj.weight"])[0]
    fit_hidden(checkpoint, hidden, target)
    stated = [
        (sources[name], checkpoint.shape(sources[name])[0])
        for name in ("embed_tokens.weight", "head.weight")
        if name in sources
    ]
    _, odd = vocabulary_of(checkpoint, stated, config.get("vocab_size"), target)
    switches = switches_of(layout, str(config.get("model_type", "")))
    odd += _odd(checkpoint, config, layout, modules, number)
    odd.append(reason(layout, switches))
    fields: dict[str, Any] = {
        "family": switches.family,
        "layers": modules,
        "order": switches.order,
        "recycle": switches.recycle,
        "zero_first": switches.zero_first,
    }
    return Plan(
        "mtp", layout, fields, ((-1, "final"),), sources, scales=scales, oddities=tuple(odd)
    )


def _modules(checkpoint: Checkpoint, layout: str) -> tuple[str, int, int]:
    """Prefix of the first module's tensors, how many modules there are, its number."""
    pattern = _PREFIXES[layout]
    found = sorted(
        (int(match[2]), match[1]) for name in checkpoint.files if (match := pattern.match(name))
    )
    if not found:
        raise PrerequisiteError(
            f"{checkpoint.path} has no projection of an MTP layer",
            "fetch or copy the checkpoint again",
        )
    number, start = found[0]
    return f"{start}{number}.", len(found), number


def _scales(checkpoint: Checkpoint, names: list[str]) -> tuple[dict[str, str], list[str]]:
    """Weight -> its scales, and the names that are weights."""
    scales = {
        name.rpartition(".")[0] + ".weight": name
        for name in names
        if name.endswith((f".{BLOCK_SCALE}", f".{ROW_SCALE}"))
    }
    if orphans := [scale for weight, scale in scales.items() if weight not in names]:
        raise PrerequisiteError(
            f"{checkpoint.path} has {orphans[0]}, but not the weight that it scales",
            "fetch or copy the checkpoint again",
        )
    beside = {*scales.values(), *(n for n in names if n.endswith(".input_scale"))}
    return scales, [name for name in names if name not in beside]


def _refuse_quantised(
    checkpoint: Checkpoint, weights: list[str], scales: Mapping[str, str]
) -> None:
    """Raise PrerequisiteError for stored types that cannot be read."""
    for name in weights:
        dtype = checkpoint.stored(name).dtype
        if dtype in PLAIN_TYPES or (dtype == _FP8 and name in scales):
            continue
        missing = " without scales" if dtype == _FP8 else ""
        raise PrerequisiteError(
            f"{checkpoint.path}: tensor {name} is stored as {dtype}{missing}",
            "MTP layers are read from plain weights or from fp8 (e4m3) with scales",
        )


def _config(checkpoint: Checkpoint) -> Mapping[str, Any]:
    inner = checkpoint.config.get("transformer_layer_config")
    return inner if isinstance(inner, Mapping) else text_config(checkpoint.config)


def _odd(
    checkpoint: Checkpoint, config: Mapping[str, Any], layout: str, modules: int, number: int
) -> list[str]:
    odd = []
    said = config.get("num_nextn_predict_layers", checkpoint.config.get("num_nextn_predict_layers"))
    if said is not None and said != modules:
        odd.append(f"config.json says {said} MTP modules, the files hold {modules}")
    if modules > 1:
        odd.append(f"{modules} modules; the first is used at every step")
    behind = config.get("num_hidden_layers")
    if layout == "nextn" and behind is not None and number not in (0, behind):
        odd.append(f"the module is layer {number}, behind {behind} layers by config.json")
    return odd

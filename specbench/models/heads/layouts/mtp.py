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
from specbench.models.heads.layouts.fp8 import BLOCK, BLOCK_SCALE, ROW_SCALE, check_scale
from specbench.models.heads.layouts.llama_config import said, text_config
from specbench.models.heads.layouts.mtp_names import FRAMES, NEXTN_SHARED
from specbench.models.heads.layouts.mtp_switches import reason, switches_of
from specbench.models.heads.layouts.token_maps import MAPS, MEMBERSHIP, OFFSETS, mapped_rows
from specbench.models.heads.plan import PLAIN_TYPES, Plan, claim, compare, require, require_matrices
from specbench.models.heads.target_facts import Target

_PREFIXES = {
    "nextn": re.compile(r"(model\.layers\.)(\d+)\.eh_proj\.weight"),
    "mimo": re.compile(r"(model\.mtp_layers\.)(\d+)\.input_proj\.weight"),
    "speculators": re.compile(r"(mtp_layers\.)(\d+)\.input_proj\.weight"),
    "qwen": re.compile(r"(mtp\.layers\.)(\d+)\.input_layernorm\.weight"),
}
_FP8 = "F8_E4M3"


def plan_mtp(checkpoint: Checkpoint, layout: str, target: Target | None) -> Plan:
    """MTP layers of DeepSeek-V3, GLM-4.5, MiMo-7B, Qwen3-Next or speculators; the first is used.

    Raises:
        PrerequisiteError: no such module, unknown or missing tensors, or another target's.
    """
    prefix, modules, number = _modules(checkpoint, layout)
    names = [name for name in checkpoint.files if _belongs(name, prefix, layout)]
    scales, weights = _scales(checkpoint, names)
    known = FRAMES[layout] | (NEXTN_SHARED if layout == "nextn" else {})

    def rename(name: str) -> str | None:
        if name in MAPS:
            return name
        inner = name.removeprefix(prefix)
        own = f"layer.{inner}" if inner != name else None
        return known.get(inner, own)

    sources = claim(checkpoint, weights, rename)
    require(checkpoint, sources, *FRAMES[layout].values(), "layer.input_layernorm.weight")
    require_matrices(checkpoint, sources)
    _refuse_quantised(checkpoint, [name for name in weights if name not in MAPS], scales)
    config = _config(checkpoint)
    rows, drafted, odd = _vocabulary(checkpoint, sources, config, target)
    offsets, membership = sources.pop(OFFSETS, None), sources.pop(MEMBERSHIP, None)
    hidden = _hidden(checkpoint, sources)
    fit_hidden(checkpoint, hidden, target)
    _fit_layer(checkpoint, sources, target)
    switches = switches_of(layout, str(config.get("model_type", "")))
    odd += _odd(checkpoint, config, layout, modules, number)
    odd.append(reason(layout, switches))
    fields: dict[str, Any] = {
        "family": switches.family,
        "layers": modules,
        "order": switches.order,
        "recycle": switches.recycle,
        "zero_first": switches.zero_first,
        "vocabulary": rows,
        "draft_vocabulary": drafted,
    }
    if switches.centred_norms:
        fields["centred_norms"] = True
    block = _block(checkpoint) if scales else BLOCK
    _check_scales(checkpoint, scales, block)
    return Plan(
        "mtp",
        layout,
        fields,
        ((-1, "final"),),
        sources,
        scales=scales,
        offsets=offsets,
        membership=membership,
        block=block,
        oddities=tuple(odd),
    )


def _belongs(name: str, prefix: str, layout: str) -> bool:
    """Whether a tensor is the first module's; Qwen's frame stands outside of its layers."""
    outside = layout == "qwen" and name.startswith("mtp.") and not name.startswith("mtp.layers.")
    return name.startswith(prefix) or outside or name in MAPS


def _vocabulary(
    checkpoint: Checkpoint,
    sources: Mapping[str, str],
    config: Mapping[str, Any],
    target: Target | None,
) -> tuple[int | None, int | None, list[str]]:
    """V, Vd, and what is odd about them."""
    drafted = mapped_rows(checkpoint, sources, "head.weight")
    names = [MEMBERSHIP, "embed_tokens.weight", *([] if drafted else ["head.weight"])]
    stated = [(sources[n], checkpoint.shape(sources[n])[0]) for n in names if n in sources]
    configured = said(config, "vocab_size", int, str(checkpoint.path))
    rows, odd = vocabulary_of(checkpoint, stated, configured, target)
    return rows, drafted or rows, odd


def _hidden(checkpoint: Checkpoint, sources: Mapping[str, str]) -> int:
    """Size of the hidden states, which the whole frame has. PrerequisiteError where it has not."""
    hidden = checkpoint.shape(sources["eh_proj.weight"])[0]
    wanted: dict[str, tuple[int, ...]] = {
        **dict.fromkeys(("enorm.weight", "hnorm.weight", "norm.weight"), (hidden,)),
        "eh_proj.weight": (hidden, 2 * hidden),
    }
    for name in ("embed_tokens.weight", "head.weight"):
        if name in sources:
            wanted[name] = (checkpoint.shape(sources[name])[0], hidden)
    frame = {name: stored for name, stored in sources.items() if not name.startswith("layer.")}
    compare(checkpoint, frame, wanted)
    return hidden


def _fit_layer(checkpoint: Checkpoint, sources: Mapping[str, str], target: Target | None) -> None:
    """Raise PrerequisiteError where the layer is not of the kind of the target's last one."""
    theirs = getattr(target, "last_layer", None)
    if theirs:
        layer = {n: stored for n, stored in sources.items() if n.startswith("layer.")}
        compare(checkpoint, layer, {f"layer.{name}": shape for name, shape in theirs.items()})


def _block(checkpoint: Checkpoint) -> tuple[int, int]:
    """Rows and columns per scale, as the configuration says; DeepSeek-V3's where it does not."""
    where = str(checkpoint.path)
    inner = said(checkpoint.config, "quantization_config", Mapping, where) or {}
    found = said(inner, "weight_block_size", list, where) or list(BLOCK)
    whole = all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in found)
    if len(found) != 2 or not whole:
        raise PrerequisiteError(
            f"{where}: weight_block_size {found!r} is not two numbers",
            "copy the checkpoint's own config.json into the folder",
        )
    return found[0], found[1]


def _check_scales(
    checkpoint: Checkpoint, scales: Mapping[str, str], block: tuple[int, int]
) -> None:
    """Raise PrerequisiteError for scales that do not go with their weight."""
    for weight, scale in scales.items():
        check_scale(checkpoint.shape(weight), checkpoint.shape(scale), block, weight)


def _modules(checkpoint: Checkpoint, layout: str) -> tuple[str, int, int]:
    """Prefix of the first module's tensors, how many modules there are, its number."""
    pattern = _PREFIXES[layout]
    found = sorted(
        (int(match[2]), match[1]) for name in checkpoint.files if (match := pattern.fullmatch(name))
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
    """Raise PrerequisiteError for stored types that cannot be read, of weights or of scales.

    Scales in bytes are exponents in some formats (MXFP8) and numbers in none that is known here.
    """
    faults = [
        (name, dtype, "with" if name in scales else "without")
        for name in weights
        if ((dtype := checkpoint.stored(name).dtype) in PLAIN_TYPES) == (name in scales)
        or dtype not in (*PLAIN_TYPES, _FP8)
    ]
    told = [f"tensor {name} is stored as {dtype} {has} scales" for name, dtype, has in faults]
    told += [
        f"tensor {scale}, the scales of {weight}, is stored as {dtype}"
        for weight, scale in scales.items()
        if (dtype := checkpoint.stored(scale).dtype) not in PLAIN_TYPES
    ]
    if told:
        raise PrerequisiteError(
            f"{checkpoint.path}: {told[0]}",
            "MTP layers are read from plain weights without scales, or from fp8 (F8_E4M3) with "
            f"scales of type {', '.join(PLAIN_TYPES)}",
        )


def _config(checkpoint: Checkpoint) -> Mapping[str, Any]:
    inner = said(checkpoint.config, "transformer_layer_config", Mapping, str(checkpoint.path))
    return text_config(checkpoint.config) if inner is None else inner


def _odd(
    checkpoint: Checkpoint, config: Mapping[str, Any], layout: str, modules: int, number: int
) -> list[str]:
    odd = []
    places = [
        (place, key)
        for key in ("num_nextn_predict_layers", "mtp_num_hidden_layers")
        for place in (config, checkpoint.config)
    ]
    named = next((place[key] for place, key in places if place.get(key) is not None), None)
    if named is not None and named != modules:
        odd.append(f"config.json says {named} MTP modules, the files hold {modules}")
    if modules > 1:
        odd.append(f"{modules} modules; only the first is read, and it is used at every step")
    behind = config.get("num_hidden_layers")
    if layout == "nextn" and behind is not None and number not in (0, behind):
        odd.append(f"the module is layer {number}, behind {behind} layers by config.json")
    return odd

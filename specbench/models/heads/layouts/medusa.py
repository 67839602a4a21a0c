"""Plans of Medusa heads; heads and blocks are counted from the tensors (ALGORITHMS 3.6, 4.4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.heads.files import BESIDE, Checkpoint
from specbench.models.heads.layouts.fit import fit_hidden, vocabulary_of
from specbench.models.heads.layouts.llama_config import said
from specbench.models.heads.layouts.token_maps import (
    MAPS,
    MEMBERSHIP,
    OFFSETS,
    map_length,
    mapped_rows,
)
from specbench.models.heads.plan import Plan, claim, compare, require_matrices, require_plain
from specbench.models.heads.target_facts import Target

_MERGED = "medusa_head."
_BLOCK = re.compile(r"(\d+)\.(\d+)\.linear\.(weight|bias)")
_PROJECTION = re.compile(r"(\d+)\.(\d+)\.weight")
_VLLM_BLOCK = re.compile(r"blocks\.(\d+)\.layers\.(\d+)\.(weight|bias)")
_VLLM_PROJECTION = re.compile(r"lm_heads\.(\d+)\.weight")
_TOKEN_MAP = "token_map"


def plan_medusa(checkpoint: Checkpoint, layout: str, target: Target | None) -> Plan:
    """Medusa heads in any layout; ``merged`` ones lie among a whole model's tensors.

    Raises:
        PrerequisiteError: unknown, missing or misshapen tensors, or another target's heads.
    """
    names = _names(checkpoint, layout)
    sources = claim(checkpoint, names, _canonical)
    maps = _maps(checkpoint, sources)
    require_matrices(checkpoint, sources)
    require_plain(checkpoint, list(sources.values()))
    heads, blocks = _counts(checkpoint, sources)
    odd = _odd(checkpoint, heads, blocks)
    projection = _projection(checkpoint, sources, heads, odd)
    hidden = checkpoint.shape(sources["heads.0.blocks.0.weight"])[0]
    fit_hidden(checkpoint, hidden, target)
    projections = [name for name in sources if name.endswith("projection.weight")]
    rows = [checkpoint.shape(sources[name])[0] for name in projections]
    configured = said(checkpoint.config, "vocab_size", int, str(checkpoint.path))
    if not maps and rows:
        _refuse_missing_map(checkpoint, rows[0], configured, target)
    mask = maps.get(MEMBERSHIP)
    stated = [] if mask is None else [(mask, checkpoint.shape(mask)[0])]
    if not maps and rows:
        stated = [(sources[projections[0]], rows[0])]
    vocabulary, more = vocabulary_of(checkpoint, stated, configured, target)
    drafted = vocabulary if not rows else rows[0]
    whole: tuple[str, ...] = ()
    if maps:
        drafted = map_length(checkpoint, maps.get(OFFSETS) or maps[_TOKEN_MAP])
        whole = tuple(n for n, r in zip(projections, rows, strict=True) if r > drafted)
    wanted = {n: vocabulary or rows[0] if n in whole else drafted or 0 for n in projections}
    fields: dict[str, Any] = {
        "hidden": hidden,
        "vocabulary": vocabulary,
        "draft_vocabulary": drafted,
        "heads": heads,
        "blocks": blocks,
        "projection": projection,
        "bias": "heads.0.blocks.0.bias" in sources,
    }
    compare(checkpoint, sources, _shapes(fields, wanted))
    return Plan(
        "medusa",
        layout,
        fields,
        ((-1, "final"),),
        sources,
        offsets=maps.get(OFFSETS),
        membership=mask,
        ids=maps.get(_TOKEN_MAP),
        rows_of_map=whole,
        oddities=(*odd, *more),
    )


def _names(checkpoint: Checkpoint, layout: str) -> list[str]:
    """Tensors of the heads: by their prefix among a model's, or those of a file beside it."""
    if layout == "merged":
        return [n for n in checkpoint.files if n.startswith(_MERGED) or n in MAPS]
    beside = [name for name, file in checkpoint.files.items() if file.name in BESIDE]
    others = checkpoint.files.keys() - set(beside)
    with_model = any("layers.0." in name for name in others)
    return beside if beside and with_model else list(checkpoint.files)


def _maps(checkpoint: Checkpoint, sources: dict[str, str]) -> dict[str, str]:
    """Maps by kind, taken out of the tensors: ``token_map`` alone, or ``d2t`` with its mask."""
    mapped_rows(checkpoint, sources)
    found = {name: sources.pop(name) for name in (_TOKEN_MAP, *MAPS) if name in sources}
    if _TOKEN_MAP in found and len(found) > 1:
        raise PrerequisiteError(
            f"{checkpoint.path} has two maps of draft tokens: {_TOKEN_MAP} and {OFFSETS}",
            "keep the one that is meant",
        )
    return found


def _shapes(fields: Mapping[str, Any], rows: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Canonical name -> shape of every tensor; ``rows`` are those of the projections."""
    hidden = fields["hidden"]
    shapes: dict[str, tuple[int, ...]] = {}
    for head in range(fields["heads"]):
        for block in range(fields["blocks"]):
            shapes[f"heads.{head}.blocks.{block}.weight"] = (hidden, hidden)
            if fields["bias"]:
                shapes[f"heads.{head}.blocks.{block}.bias"] = (hidden,)
    return shapes | {name: (count, hidden) for name, count in rows.items()}


def _canonical(name: str) -> str | None:
    name = name.removeprefix(_MERGED).removeprefix("medusa_heads.")
    if found := _BLOCK.fullmatch(name) or _VLLM_BLOCK.fullmatch(name):
        return f"heads.{found[1]}.blocks.{found[2]}.{found[3]}"
    if found := _PROJECTION.fullmatch(name) or _VLLM_PROJECTION.fullmatch(name):
        return f"heads.{found[1]}.projection.weight"
    if name == "lm_head.weight":
        return "projection.weight"
    return name if name in (_TOKEN_MAP, *MAPS) else None


def _counts(checkpoint: Checkpoint, sources: Mapping[str, str]) -> tuple[int, int]:
    """Heads, and blocks of every head. PrerequisiteError where they are not a full grid."""
    pairs = {
        (int(found[1]), int(found[2]))
        for name in sources
        if (found := re.fullmatch(r"heads\.(\d+)\.blocks\.(\d+)\.weight", name))
    }
    heads = 1 + max(head for head, _ in pairs)
    blocks = 1 + max(block for _, block in pairs)
    wanted = {(head, block) for head in range(heads) for block in range(blocks)}
    if missing := sorted(wanted - pairs):
        raise PrerequisiteError(
            f"{checkpoint.path} lacks block {missing[0][1]} of head {missing[0][0]}",
            "fetch or copy the checkpoint again",
        )
    biases = sum(name.endswith(".bias") for name in sources)
    if biases not in (0, len(wanted)):
        raise PrerequisiteError(
            f"{checkpoint.path} has {biases} biases for {len(wanted)} blocks",
            "fetch or copy the checkpoint again",
        )
    return heads, blocks


def _projection(checkpoint: Checkpoint, sources: dict[str, str], heads: int, odd: list[str]) -> str:
    """``own``, ``one`` or ``target``; vLLM stores a shared one under head 0 as well."""
    shares = said(checkpoint.config, "original_lm_head", bool, str(checkpoint.path))
    own = [i for i in range(heads) if f"heads.{i}.projection.weight" in sources]
    if own == [0] and heads > 1 and shares:
        sources["projection.weight"] = sources.pop("heads.0.projection.weight")
        own = []
    if "projection.weight" in sources and own:
        raise PrerequisiteError(
            f"{checkpoint.path} has a projection for all heads and one for head {own[0]}",
            "keep the one that is meant",
        )
    if "projection.weight" in sources:
        return "one"
    if not own:
        if str(checkpoint.config.get("version")) != "2" and not shares:
            odd.append(
                "no output projections, which config.json does not say; the target's is used"
            )
        return "target"
    if len(own) < heads:
        raise PrerequisiteError(
            f"{checkpoint.path} has projections for {len(own)} of {heads} heads",
            "fetch or copy the checkpoint again",
        )
    return "own"


def _odd(checkpoint: Checkpoint, heads: int, blocks: int) -> list[str]:
    """Where the configuration counts otherwise; the authors' loader does not trust it either."""
    keys = {"medusa_num_heads": (heads, "heads"), "medusa_num_layers": (blocks, "blocks per head")}
    if checkpoint.config.get("model_type") == "medusa":
        keys |= {"num_heads": (heads, "heads"), "num_hidden_layers": (blocks, "blocks per head")}
    return [
        f"config.json says {checkpoint.config[key]} {what}, the file holds {found}"
        for key, (found, what) in keys.items()
        if checkpoint.config.get(key, found) != found
    ]


def _refuse_missing_map(
    checkpoint: Checkpoint, rows: int, configured: object, target: Target | None
) -> None:
    """Raise PrerequisiteError for a smaller vocabulary without a map."""
    wanted = target.vocabulary if target is not None else configured
    if isinstance(wanted, int) and rows < wanted:
        raise PrerequisiteError(
            f"{checkpoint.path}: the heads have {rows} of {wanted} tokens and no token_map or d2t "
            "to say which",
            "get the map from the heads' authors; a guess would draft wrong tokens",
        )

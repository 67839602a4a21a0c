"""Shapes of drafting heads: from a checkpoint's headers, or of a family as it is usually made.

Embeddings are the target's unless a file holds one. A head runs in the target's type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError, UsageError
from specbench.models.heads.files import open_checkpoint
from specbench.models.heads.layouts.llama_config import text_config, whole_number
from specbench.models.heads.planning import PLANNERS, runs_elsewhere
from specbench.models.heads.sniff import sniff
from specbench.models.heads.target_facts import TargetFacts
from specbench.roofline.shape import Experts, Layers, Shape, grouped

FAMILIES = ("eagle3", "mtp", "medusa")
"""Families of which a head can be made up for a target."""

EAGLE_VOCABULARY = 32000
"""Tokens that published EAGLE-3 heads draft."""
MEDUSA_HEADS = 5
"""As its authors train."""


def made_up(
    family: str, target: Shape, config: Mapping[str, Any], drafted: int | None = None
) -> Shape:
    """A head for a target, of the sizes that ``specbench models new-head`` gives it.

    ``eagle3`` is one Llama layer of the target's sizes behind a projection of three hidden states,
    with an output projection of its own; ``mtp`` the target's last layer behind a projection of
    two, with the target's output projection; ``medusa`` five blocks with a projection each.

    Args:
        family: of ``FAMILIES``.
        target: the target's shape.
        config: its ``config.json``.
        drafted: rows of the output projection; by default 32000 for ``eagle3``, else all.

    Raises:
        UsageError: more rows than the target has tokens.
        PrerequisiteError: ``eagle3`` for a target whose attention is not Llama's.
    """
    if drafted is not None and drafted > target.vocabulary:
        raise UsageError(
            f"a draft vocabulary of {drafted} tokens, the target has {target.vocabulary}",
            "say less with --draft-vocab",
        )
    head = _MADE[family](target, config)
    usual = min(EAGLE_VOCABULARY, target.vocabulary) if family == "eagle3" else target.vocabulary
    answers = head.answers if head.own_output else 1
    return replace(head, output_rows=answers * (drafted or usual))


def _eagle3(target: Shape, config: Mapping[str, Any]) -> Shape:
    text = text_config(config)
    if "kv_lora_rank" in text:
        raise PrerequisiteError(
            f"{target.name} has latent attention: what size an EAGLE-3 head for it has is its "
            "maker's choice",
            "name the head's folder, or --draft mtp",
        )
    hidden = target.hidden
    heads = whole_number(text, "num_attention_heads", target.name)
    attention = target.layers[-1].attention
    assert attention is not None
    size = attention.pair_flops // (4 * heads)
    kv_heads = attention.kv_elements // (2 * size)
    projections = 2 * hidden * size * (heads + 2 * kv_heads) + heads * size * hidden
    width = whole_number(text, "intermediate_size", target.name)
    matrices = 3 * hidden * hidden + projections + 3 * hidden * width
    layer = Layers(1, matrices, grouped(heads, kv_heads, size))
    return _head("eagle3 head", target, layer)


def _mtp(target: Shape, config: Mapping[str, Any]) -> Shape:
    last = target.layers[-1]
    layer = replace(last, count=1, matrices=last.matrices + 2 * target.hidden**2)
    return replace(_head("MTP module", target, layer), own_output=False)


def _medusa(target: Shape, config: Mapping[str, Any]) -> Shape:
    layer = Layers(1, MEDUSA_HEADS * target.hidden**2, None)
    return replace(_head(f"{MEDUSA_HEADS} Medusa heads", target, layer), answers=MEDUSA_HEADS)


_MADE = {"eagle3": _eagle3, "mtp": _mtp, "medusa": _medusa}


def _head(name: str, target: Shape, layer: Layers) -> Shape:
    return Shape(
        name,
        target.hidden,
        target.vocabulary,
        (layer,),
        output_rows=target.vocabulary,
        own_embedding=False,
    )


def read_head_shape(name: str, folder: Path, target: Shape, config: Mapping[str, Any]) -> Shape:
    """The shape of the first head in a folder.

    Raises:
        UsageError: a bigram table, or a head that only servers run.
        PrerequisiteError: a damaged checkpoint, or one for another target.
    """
    checkpoint = open_checkpoint(folder)
    contents = sniff(checkpoint)
    if contents.table:
        raise UsageError(f"{name} is a bigram table, which costs nothing", "leave --draft out")
    if contents.foreign is not None:
        raise UsageError(
            f"{name} holds {contents.foreign.what}; its costs are not known here",
            runs_elsewhere(contents.foreign),
        )
    kind, text = contents.heads[0], text_config(config)
    facts = TargetFacts(
        target.hidden, target.depth, target.vocabulary, str(text.get("model_type")), text
    )
    plan = PLANNERS[kind.family](checkpoint, kind.layout, facts)
    sizes = {ours: checkpoint.shape(stored) for ours, stored in plan.sources.items()}
    matrices = {ours: prod(shape) for ours, shape in sizes.items() if len(shape) > 1}
    drafted = int(plan.fields["draft_vocabulary"])
    if kind.family == "medusa":
        return _medusa_shape(name, target, matrices, int(plan.fields["heads"]), drafted)
    if kind.family == "mtp":
        layer = _mtp_layer(target, matrices)
    else:
        heads, kv_heads, size = (int(plan.fields[key]) for key in _SIZES)
        count = int(plan.fields["layers"])
        layer = Layers(count, _inner(matrices) // count, grouped(heads, kv_heads, size))
    return Shape(
        name,
        target.hidden,
        target.vocabulary,
        (layer,),
        output_rows=drafted,
        own_embedding="embed_tokens.weight" in matrices,
        own_output=plan.projection == "own",
    )


_SIZES = ("heads", "kv_heads", "head_size")
_ENDS = ("embed_tokens.weight", "head.weight", "projection.weight")
_EXPERT = ".mlp.experts."


def _inner(matrices: Mapping[str, int]) -> int:
    """Parameters between the ends, routed experts left out."""
    inner = {name: size for name, size in matrices.items() if not name.endswith(_ENDS)}
    return sum(size for name, size in inner.items() if _EXPERT not in name)


def _mtp_layer(target: Shape, matrices: Mapping[str, int]) -> Layers:
    """A layer of the target's kind; how many experts a token meets is the target's word."""
    last = target.layers[-1]
    routed = sum(size for name, size in matrices.items() if _EXPERT in name)
    experts = None
    if last.experts and routed:
        total = last.experts.total
        experts = Experts(total, last.experts.chosen, routed // total)
    return Layers(1, _inner(matrices), last.attention, experts)


def _medusa_shape(
    name: str, target: Shape, matrices: Mapping[str, int], heads: int, drafted: int
) -> Shape:
    """Heads share one projection or have their own."""
    own = sum(size for tensor, size in matrices.items() if tensor.endswith("projection.weight"))
    each = own > drafted * target.hidden
    return Shape(
        name,
        target.hidden,
        target.vocabulary,
        (Layers(1, _inner(matrices), None),),
        output_rows=drafted * (heads if each else 1),
        own_embedding=False,
        own_output=own > 0,
        output_uses=1 if each else heads,
        answers=heads,
    )

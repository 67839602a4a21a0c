"""Plans of EAGLE-1/2 and EAGLE-3 heads: what is there decides, the configuration only helps.

Sources: ALGORITHMS 3.1, 3.3 and 4.1-4.3; the authors' cnets1.py and cnets.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.heads.files import Checkpoint
from specbench.models.heads.layouts.eagle_names import canonical
from specbench.models.heads.layouts.eagle_shapes import eagle_shapes
from specbench.models.heads.layouts.eagle_sizes import sizes
from specbench.models.heads.layouts.eagle_switches import (
    DEFAULT_TAPS,
    Features,
    Switches,
    features,
    recycled,
)
from specbench.models.heads.layouts.fit import fit_hidden, fit_lent, vocabulary_of
from specbench.models.heads.layouts.llama_config import said
from specbench.models.heads.layouts.token_maps import MAPS, MEMBERSHIP, OFFSETS, mapped_rows
from specbench.models.heads.plan import (
    Plan,
    claim,
    compare,
    require,
    require_matrices,
    require_plain,
)
from specbench.models.heads.target_facts import Target

_LAYER_TENSORS = (
    *(f"layers.0.self_attn.{part}_proj.weight" for part in "qkvo"),
    *(f"layers.0.mlp.{part}_proj.weight" for part in ("gate", "up", "down")),
    "layers.0.post_attention_layernorm.weight",
)


def plan_eagle1(checkpoint: Checkpoint, layout: str, target: Target | None) -> Plan:
    """An EAGLE-1/2 head.

    Raises:
        PrerequisiteError: unknown, missing or misshapen tensors, or another target's head.
    """
    sources = _claimed(checkpoint)
    require(checkpoint, sources, "fc.weight", *_LAYER_TENSORS)
    config, odd = _config(checkpoint), list[str]()
    found = sizes(checkpoint, sources, config, odd)
    hidden, width = checkpoint.shape(sources["fc.weight"])
    if width <= hidden:
        raise PrerequisiteError(
            f"{checkpoint.path}: fc reads {width} columns, which embedding and hidden state of "
            f"a head of size {hidden} do not make up",
            "see what it is: specbench models inspect PATH",
        )
    fit_hidden(checkpoint, width - hidden, target)
    if ("fc.bias" in sources) != _says_bias(checkpoint, layout):
        odd.append(
            f"fc {'has a' if 'fc.bias' in sources else 'lacks the'} bias, other than "
            "config.json says; the tensor counts"
        )
    rows, more = _vocabulary(checkpoint, sources, config, target)
    fields = found | {
        "version": 1,
        "target_hidden": width - hidden,
        "vocabulary": rows,
        "draft_vocabulary": _head_rows(checkpoint, sources, rows),
        "fc_bias": "fc.bias" in sources,
        "input_norm": "layers.0.input_layernorm.weight" in sources,
        "final_norm": "norm.weight" in sources,
    }
    if hidden != width - hidden:
        raise PrerequisiteError(
            f"{checkpoint.path}: an EAGLE-1 head of size {hidden} cannot feed itself, because it "
            f"reads hidden states of size {width - hidden}",
            "use a head that was made for this target",
        )
    final = Features(hidden, ((-1, "final"),), (), ())
    return _plan(checkpoint, ("eagle1", layout), fields, final, sources, [*odd, *more])


def plan_eagle3(checkpoint: Checkpoint, layout: str, target: Target | None) -> Plan:
    """An EAGLE-3 head; arguments and errors as ``plan_eagle1``."""
    sources = _claimed(checkpoint)
    norms = ("layers.0.input_layernorm.weight", "layers.0.hidden_norm.weight", "norm.weight")
    require(checkpoint, sources, "fc.weight", *_LAYER_TENSORS, *norms)
    config, odd = _config(checkpoint), list[str]()
    embedding = sources.get("embed_tokens.weight")
    tied = said(config, "tie_word_embeddings", bool, str(checkpoint.path))
    if tied and embedding and "lm_head.weight" not in sources:
        sources["lm_head.weight"] = embedding
        odd.append("its output projection is its embedding, as config.json says")
    found = sizes(checkpoint, sources, config, odd)
    width = checkpoint.shape(sources["fc.weight"])[1]
    taken = features(checkpoint, layout, width, target)
    fit_hidden(checkpoint, taken.target_hidden, target)
    rows, more = _vocabulary(checkpoint, sources, config, target)
    switches = Switches.of(checkpoint, sources, odd)
    fields = found | {
        "version": 3,
        "target_hidden": taken.target_hidden,
        "vocabulary": rows,
        "draft_vocabulary": _head_rows(checkpoint, sources, rows),
        "fc_bias": "fc.bias" in sources,
        "norm_before_residual": switches.norm_before_residual,
        "norm_before_fc": switches.norm_before_fc,
        "fc_norm": switches.fc_norm,
        "recycle": recycled(checkpoint, layout, odd),
        "final_norm": True,
    }
    odd += [*taken.oddities, *more]
    return _plan(checkpoint, ("eagle3", layout), fields, taken, sources, odd)


def _claimed(checkpoint: Checkpoint) -> dict[str, str]:
    sources = claim(checkpoint, list(checkpoint.files), canonical)
    require_matrices(checkpoint, sources)
    require_plain(checkpoint, [stored for name, stored in sources.items() if name not in MAPS])
    return sources


def _config(checkpoint: Checkpoint) -> Mapping[str, Any]:
    """The Llama-like configuration: at the top, or speculators' inner one."""
    inner = said(checkpoint.config, "transformer_layer_config", Mapping, str(checkpoint.path))
    return checkpoint.config if inner is None else inner


def _says_bias(checkpoint: Checkpoint, layout: str) -> bool:
    """Whether the configuration gives fc a bias; the authors' code does where it says nothing."""
    where = str(checkpoint.path)
    if layout == "speculators":
        return bool(said(checkpoint.config, "fusion_bias", bool, where))
    found = said(checkpoint.config, "bias", bool, where)
    return True if found is None else bool(found)


def _vocabulary(
    checkpoint: Checkpoint,
    sources: Mapping[str, str],
    config: Mapping[str, Any],
    target: Target | None,
) -> tuple[int | None, list[str]]:
    names = [MEMBERSHIP, "embed_tokens.weight"]
    if OFFSETS not in sources:
        names.append("lm_head.weight")
    configured = said(config, "vocab_size", int, str(checkpoint.path))
    if OFFSETS not in sources and "lm_head.weight" in sources and isinstance(configured, int):
        rows = checkpoint.shape(sources["lm_head.weight"])[0]
        wanted = configured if target is None else target.vocabulary
        if rows < wanted:
            raise PrerequisiteError(
                f"{checkpoint.path}: the head has {rows} of {wanted} tokens and no map (d2t) to "
                "say which",
                "get the map from the head's authors; a guess would draft wrong tokens",
            )
    stated = [(sources[n], checkpoint.shape(sources[n])[0]) for n in names if n in sources]
    return vocabulary_of(checkpoint, stated, configured, target)


def _head_rows(checkpoint: Checkpoint, sources: Mapping[str, str], rows: int | None) -> int | None:
    """Vd: rows of the output projection, which is the target's where it is absent."""
    mapped = mapped_rows(checkpoint, sources, "lm_head.weight")
    if mapped is not None:
        return mapped
    return checkpoint.shape(sources["lm_head.weight"])[0] if "lm_head.weight" in sources else rows


def _plan(
    checkpoint: Checkpoint,
    kind: tuple[str, str],
    fields: Mapping[str, Any],
    taken: Features,
    sources: dict[str, str],
    oddities: list[str],
) -> Plan:
    offsets, membership = sources.pop(OFFSETS, None), sources.pop(MEMBERSHIP, None)
    fit_lent(checkpoint, sources, fields["hidden"], fields["target_hidden"])
    taps = DEFAULT_TAPS if taken.places is None else len(taken.places)
    compare(checkpoint, sources, eagle_shapes(fields, taps, sources))
    return Plan(
        *kind,
        fields,
        taken.places,
        sources,
        offsets=offsets,
        membership=membership,
        layer_ids=taken.ids,
        oddities=tuple(oddities),
    )

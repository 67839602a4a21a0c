"""What a head is once its checkpoint is read: one description per family, whatever the file format.

Shapes: H hidden size of the head, Ht of the target, V vocabulary of the target, Vd of the draft.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from specbench.decoding.protocols import Tap
from specbench.models.heads.made_for import MadeFor

FAMILIES = ("eagle1", "eagle3", "mtp", "medusa")
"""Families that the native engine runs."""

FINAL = Tap(-1, "final")
"""The target's hidden state behind its last norm, which the output projection reads."""


@dataclass(frozen=True, slots=True)
class TargetShape:
    """What of a target decides whether a head fits it.

    Attributes:
        hidden: Ht.
        layers: L.
        vocabulary: V, rows of the embedding.
        model_type: as in its configuration.
        config: the whole configuration, a transformers object.
    """

    hidden: int
    layers: int
    vocabulary: int
    model_type: str
    config: Any = field(repr=False, compare=False, default=None)

    @classmethod
    def of(cls, config: Any) -> TargetShape:
        """From a transformers configuration."""
        text = config.get_text_config()
        return cls(
            int(text.hidden_size),
            int(text.num_hidden_layers),
            int(text.vocab_size),
            str(text.model_type),
            text,
        )


@dataclass(frozen=True, slots=True)
class EagleConfig:
    """EAGLE-1/2 and EAGLE-3 heads (ALGORITHMS 3.1, 3.3): Llama layers behind a projection ``fc``.

    Attributes:
        version: 1 (also EAGLE-2: the same network) or 3.
        hidden, target_hidden, intermediate: H, Ht, width of the MLP.
        heads, kv_heads, head_size: of the attention; heads * head_size need not be H.
        layers: decoder layers, counted from the tensors.
        vocabulary, draft_vocabulary: V, Vd.
        norm_eps, rope_theta, rope_scaling, max_positions: as in a Llama configuration; rope_theta
            is 10000 where the file says nothing, never the target's.
        fc_bias, attention_bias: whether these projections have a bias.
        activation: of the MLP.
        input_norm: EAGLE-1 alone: whether layer 0 has an ``input_layernorm`` (published ones lack
            it).
        norm_before_residual: EAGLE-3: the residual is the normed hidden state.
        norm_before_fc: EAGLE-3: one RMSNorm (``input_norm``) over the joined features before fc.
        fc_norm: EAGLE-3: one RMSNorm per tapped layer before they are joined.
        recycle: hidden state that the next drafting step takes: ``pre_norm`` or ``post_norm``.
        final_norm: whether there is a ``norm`` before the output projection.
        taps: hidden states of the target, in the order in which they are joined.
    """

    version: int
    hidden: int
    target_hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_size: int
    layers: int
    vocabulary: int
    draft_vocabulary: int
    norm_eps: float
    rope_theta: float
    max_positions: int
    rope_scaling: Mapping[str, object] | None = None
    fc_bias: bool = False
    attention_bias: bool = False
    activation: str = "silu"
    input_norm: bool = False
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False
    recycle: str = "pre_norm"
    final_norm: bool = False
    taps: tuple[Tap, ...] = (FINAL,)


@dataclass(frozen=True, slots=True)
class MtpConfig:
    """Multi-token prediction layers (ALGORITHMS 3.5): two norms, a projection, a target's layer.

    Attributes:
        family: whose switches apply: ``deepseek``, ``glm4_moe``, ``mimo``. Layers of other targets
            (Llama, Qwen2, Qwen3) are read as ``deepseek``.
        layers: trained modules in the file; only the first is read, and it is used at every step.
        order: ``embedding_first`` or ``hidden_first``, halves of the projection's input.
        recycle: hidden state of the next drafting step: ``pre_norm``, ``post_norm``, ``target``.
        zero_first: whether the embedding at position 0 is set to zero, as serving engines do.
        target: the target's configuration; the layer is of its kind.
        draft_vocabulary: Vd; by default (0) the target's V.
        taps: the final hidden state.
    """

    family: str
    layers: int
    order: str
    recycle: str
    zero_first: bool
    target: TargetShape
    draft_vocabulary: int = 0
    taps: tuple[Tap, ...] = (FINAL,)

    def __post_init__(self) -> None:
        if not self.draft_vocabulary:
            object.__setattr__(self, "draft_vocabulary", self.target.vocabulary)


@dataclass(frozen=True, slots=True)
class MedusaConfig:
    """Medusa heads (ALGORITHMS 3.6): residual blocks and a projection each.

    Attributes:
        hidden, vocabulary: Ht, V.
        draft_vocabulary: Vd, rows of the projections; below V with a token map.
        heads: counted from the tensors.
        blocks: residual blocks per head.
        projection: ``own`` per head, ``one`` for all heads, or the ``target``'s: its rows of the
            map where there is one.
        bias: whether the blocks have a bias.
        taps: the final hidden state.
    """

    hidden: int
    vocabulary: int
    draft_vocabulary: int
    heads: int
    blocks: int
    projection: str
    bias: bool
    taps: tuple[Tap, ...] = (FINAL,)


HeadConfig = EagleConfig | MtpConfig | MedusaConfig

_ENTRANCE = {
    "eagle1": "fc.weight",
    "eagle3": "fc.weight",
    "mtp": "eh_proj.weight",
    "medusa": "heads.0.blocks.0.weight",
}
"""The tensor whose data type is the head's."""


@dataclass(frozen=True, slots=True)
class HeadCheckpoint:
    """A head as read from its files.

    Tensor names, whatever the file called them:

    - eagle: ``fc.{weight,bias}``, ``input_norm.weight``, ``fc_norm.{i}.weight``,
      ``layers.{i}.self_attn.{q,k,v,o}_proj.{weight,bias}``, ``layers.{i}.mlp.{gate,up,down}_proj
      .weight``, ``layers.{i}.{input_layernorm,hidden_norm,post_attention_layernorm}.weight``,
      ``norm.weight``, ``lm_head.weight``, ``embed_tokens.weight``, ``target_ids``.
    - mtp: ``enorm.weight``, ``hnorm.weight``, ``eh_proj.weight``, ``norm.weight``,
      ``layer.*`` as the target's checkpoint names a layer's tensors (experts one by one),
      ``embed_tokens.weight``, ``head.weight``, ``target_ids``.
    - medusa: ``heads.{i}.blocks.{j}.{weight,bias}``, ``heads.{i}.projection.weight`` or
      ``projection.weight`` for all, ``target_ids``.

    ``target_ids`` int64 [Vd] is the target's id of every row of the output projection; absent, the
    ids are the same. An embedding that is absent is the target's. So is an output projection that
    is absent: all of it, or with ``target_ids`` its rows of these tokens.

    Attributes:
        family: of ``FAMILIES``.
        layout: which program's files these are, e.g. ``official``, ``speculators``.
        config: what the head is.
        tensors: name -> tensor, on the CPU, in the wanted dtype.
        name, revision, weight_hash: where it came from.
        oddities: what is unusual or was decided without the file saying so, for the reader.
        layer_ids: EAGLE-3: numbers of the target's layers as the file names them, whichever side
            of a layer is meant; empty where it names none.
        made_for: the target that it was trained for; None where its files do not say.
    """

    family: str
    layout: str
    config: HeadConfig
    tensors: Mapping[str, Tensor] = field(repr=False)
    name: str = ""
    revision: str | None = None
    weight_hash: str = ""
    oddities: tuple[str, ...] = ()
    layer_ids: tuple[int, ...] = ()
    made_for: MadeFor | None = None

    @property
    def dtype(self) -> torch.dtype:
        """Data type of its matrices. KeyError: it lacks the tensor at its entrance."""
        return self.tensors[_ENTRANCE[self.family]].dtype

    def facts(self) -> dict[str, object]:
        """What is recorded: where it came from, and every switch that changes its drafts."""
        return {
            "name": self.name,
            "revision": self.revision,
            "family": self.family,
            "layout": self.layout,
            "weight_hash": self.weight_hash,
            "oddities": list(self.oddities),
            "made_for": None if self.made_for is None else asdict(self.made_for),
            "head": _plain(self.config),
        }


def _plain(config: HeadConfig) -> dict[str, object]:
    """A configuration as values that JSON can hold."""
    found: dict[str, object] = {}
    for name in config.__dataclass_fields__:
        value = getattr(config, name)
        if isinstance(value, TargetShape):
            continue
        if name == "taps":
            value = [f"{tap.side} {tap.layer}".removesuffix(" -1") for tap in value]
        found[name] = value
    return found

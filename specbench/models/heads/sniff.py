"""What a checkpoint folder holds, from its tensor names; the configuration only names exporters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from specbench.errors import PrerequisiteError
from specbench.models.folder import TOKENIZER_FILES, read_json
from specbench.models.heads.files import Checkpoint, LeadsOut, open_checkpoint
from specbench.models.heads.foreign import (
    QWEN_MTP,
    Foreign,
    architectures,
    by_speculators,
    foreign,
)
from specbench.models.heads.table import is_table

_NEXTN = re.compile(r"model\.layers\.\d+\.eh_proj\.weight")
_MEDUSA = re.compile(r"(medusa_head\.)?\d+\.\d+\.linear\.weight")
_MEDUSA_VLLM = re.compile(r"(medusa_heads\.)?blocks\.\d+\.layers\.\d+\.weight")
_FIRST_LAYER = re.compile(r"(language_model\.)?(model\.)?(language_model\.)?layers\.0\.")


_LAYER_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
OF_HEADS = ("medusa_", "speculators_", "eagle_", "draft_", "hydra_", "pard_", "num_heads")
"""How keys begin that only configurations of heads have; ``num_heads`` is vLLM's for Medusa."""

_INSIDE_MODELS = ("qwen_mtp", "mimo_v2_mtp", "dspark", "pard")
"""Foreign kinds that may lie in a whole model's files."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A head: of ``configs.FAMILIES``, in which program's names."""

    family: str
    layout: str


@dataclass(frozen=True, slots=True)
class Contents:
    """What a folder holds.

    Attributes:
        heads: whose tensors are read; the native engine runs them unless ``foreign`` says where.
        foreign: what only a server runs.
        model: whether there is a whole model, with or without heads beside it.
        table: whether it is a bigram table, which is neither.
    """

    heads: tuple[Kind, ...]
    foreign: Foreign | None
    model: bool
    table: bool = False


def sniff(checkpoint: Checkpoint) -> Contents:
    """Look at names and the configuration of a checkpoint."""
    if is_table(checkpoint.config):
        return Contents((), None, model=False, table=True)
    names = list(checkpoint.files)
    found = foreign(checkpoint.config, names)
    heads = () if found is not None else tuple(_heads(checkpoint, names))
    if found is QWEN_MTP and "mtp.fc.weight" in names:
        heads = (Kind("mtp", "qwen"),)
    is_eagle = any(kind.family.startswith("eagle") for kind in heads)
    inside = found is None or found.kind in _INSIDE_MODELS
    # SGLang exports a lone MTP module as the first layer of a model
    lone = "model.layers.0.eh_proj.weight" in names
    layers = any(map(_FIRST_LAYER.match, names)) and not (is_eagle or lone)
    return Contents(heads, found, (inside and layers) or (not heads and found is None))


def holds_only_a_head(path: Path) -> bool:
    """Whether a folder is a drafting head, or a table, and no model: it then needs no tokenizer.

    A damaged folder is no head; whoever loads it says what is wrong. Pickles of an ordinary model
    are not opened for this.

    Raises:
        LeadsOut: an index that leads out of the folder.
    """
    if _is_pickled_model(path):
        return False
    try:
        contents = sniff(open_checkpoint(path, beside=False))
    except LeadsOut:
        raise
    except PrerequisiteError:
        return False
    return not contents.model


def _is_pickled_model(path: Path) -> bool:
    """Whether a folder without safetensors is an ordinary model, by its small files alone.

    A head has one layer, or says what it is, or has no tokenizer: how many layers its
    configuration counts may be copied from the target's.
    """
    if any(path.glob("*.safetensors")):
        return False
    config = read_json(path / "config.json")
    counts = [config[key] for key in _LAYER_COUNTS if isinstance(config.get(key), int)]
    if any(key.startswith(OF_HEADS) for key in config) or 1 in counts:
        return False
    tokenizer = any((path / name).is_file() for name in TOKENIZER_FILES)
    return bool(config.get("model_type")) and tokenizer


def _heads(checkpoint: Checkpoint, names: list[str]) -> list[Kind]:
    """Heads by their names."""
    plain = {name.removeprefix("model.") for name in names}
    found = []
    if plain & {"fc.weight", "fusion_fc.weight"}:
        found.append(_eagle(checkpoint, plain))
    if any(map(_MEDUSA.fullmatch, names)):
        found.append(Kind("medusa", _medusa_layout(names)))
    elif any(map(_MEDUSA_VLLM.fullmatch, names)):
        found.append(Kind("medusa", "vllm"))
    if any(map(_NEXTN.fullmatch, names)):
        found.append(Kind("mtp", "nextn"))
    if any(name.startswith("model.mtp_layers.") for name in names):
        found.append(Kind("mtp", "mimo"))
    if any(name.startswith("mtp_layers.") for name in names):
        found.append(Kind("mtp", "speculators"))
    return found


def _eagle(checkpoint: Checkpoint, plain: set[str]) -> Kind:
    """EAGLE-3 norms the hidden state before attention; EAGLE-1 never does."""
    third = any(name.endswith(".hidden_norm.weight") for name in plain)
    family = "eagle3" if third else "eagle1"
    if by_speculators(checkpoint.config):
        return Kind(family, "speculators")
    if not third:
        return Kind(family, "official")
    if not any(name.startswith("midlayer.") for name in plain):
        return Kind(family, "vllm")
    first = next(iter(architectures(checkpoint.config)), "")
    return Kind(family, "specforge" if first.endswith("Eagle3") else "official")


def _medusa_layout(names: list[str]) -> str:
    if any(name.startswith("medusa_head.") for name in names):
        return "merged"
    return "v1" if any(re.fullmatch(r"\d+\.\d+\.weight", name) for name in names) else "v2"

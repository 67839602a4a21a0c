"""What a model is, from its files alone: no weights are loaded and torch is not needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.folder import check_folder, read_json, read_record
from specbench.models.gguf_tokenizer import read_facts
from specbench.models.heads.describe import Heads, describe_heads
from specbench.models.heads.files import Checkpoint, files_hash, open_checkpoint
from specbench.models.heads.foreign import architectures
from specbench.models.heads.layouts.llama_config import text_config
from specbench.models.heads.made_for import MadeFor, made_for
from specbench.models.heads.target_facts import Target
from specbench.models.locate import Location, fetch_hint
from specbench.models.weights import weight_hash


@dataclass(frozen=True, slots=True)
class Description:
    """Facts about a model; None is "not stated by the files".

    Attributes:
        parameters: stored parameters; tied tensors are stored once.
        size_bytes: bytes of the weight files.
        dtypes: tensors per stored type.
        tokens: ids that have a token string.
        bos, eos: token strings.
        chat_template: whether there is one.
        notes: what a conversion found odd.
        drafting: heads for drafting in it; None for GGUF files and where names cannot be read.
        made_for: the target that it was trained for, where a head or a draft says so.
    """

    name: str
    kind: str
    source: str
    revision: str | None
    path: str
    architecture: str | None
    parameters: int
    layers: int | None
    hidden: int | None
    heads: int | None
    kv_heads: int | None
    vocabulary_rows: int | None
    context: int | None
    dtypes: Mapping[str, int]
    size_bytes: int
    tokens: int | None
    bos: str | None
    eos: str | None
    chat_template: bool
    weight_hash: str
    notes: tuple[str, ...]
    drafting: Heads | None = None
    made_for: MadeFor | None = None

    def to_json(self) -> dict[str, object]:
        """The fields as JSON values."""
        return asdict(self)


def describe(location: Location, target: Target | None = None) -> Description:
    """Describe a located model or head.

    Args:
        location: on this disk.
        target: what heads in it should fit; whether they do is said in their description.

    Raises:
        PrerequisiteError: a hub model that is not on this disk, or a damaged file.
    """
    if location.path is None:
        raise PrerequisiteError(
            f"{location.name} is not on this disk",
            f"type: {fetch_hint(location.name, location.revision)}",
        )
    if location.path.is_file():
        return _gguf(location, location.path)
    return _folder(location, location.path, target)


def _folder(location: Location, path: Path, target: Target | None) -> Description:
    checkpoint, notes = _opened(path)
    drafting = describe_heads(checkpoint, target) if checkpoint.files else None
    only_a_head = drafting is not None and not drafting.model
    files = sorted(set(checkpoint.files.values()))
    if not only_a_head:
        files = check_folder(path, allow_pickle=True, needs_tokenizer=False)
    config = checkpoint.config
    inner = config.get("transformer_layer_config")
    text = text_config(inner if isinstance(inner, Mapping) else config)
    stored = [checkpoint.stored(name) for name in checkpoint.files]
    tokenizer = read_json(path / "tokenizer_config.json")
    record = read_record(path) or {}
    recorded = record.get("tokenizer_notes")
    return Description(
        **_origin(location, path),
        architecture=_architecture(config),
        parameters=sum(prod(t.shape) for t in stored),
        layers=_first(text, "num_hidden_layers", "n_layer"),
        hidden=_first(text, "hidden_size", "n_embd"),
        heads=_first(text, "num_attention_heads", "n_head"),
        kv_heads=_first(text, "num_key_value_heads", "num_attention_heads", "n_head"),
        vocabulary_rows=_first(text, "vocab_size"),
        context=_first(text, "max_position_embeddings", "n_positions"),
        dtypes=dict(Counter(t.dtype for t in stored)),
        size_bytes=sum(file.stat().st_size for file in files),
        tokens=_count_tokens(read_json(path / "tokenizer.json")),
        bos=_token(tokenizer.get("bos_token")),
        eos=_token(tokenizer.get("eos_token")),
        chat_template="chat_template" in tokenizer
        or (path / "chat_template.jinja").is_file()
        or (path / "chat_template.json").is_file(),
        weight_hash=files_hash(files) if only_a_head else weight_hash(path),
        notes=(*notes, *(recorded if isinstance(recorded, list) else ())),
        drafting=drafting,
        made_for=made_for(path),
    )


def _architecture(config: Mapping[str, Any]) -> str | None:
    kind = config.get("model_type")
    return next(iter(architectures(config)), None if kind is None else str(kind))


def _opened(path: Path) -> tuple[Checkpoint, list[str]]:
    """The checkpoint in a folder; one without tensors, and a note, where names cannot be read."""
    whole = any(path.glob("*.safetensors"))
    pickled = (any(path.glob("*.bin")) and not whole) or any(path.glob("medusa_lm_head.pt"))
    if pickled and find_spec("torch") is None:
        config = read_json(path / "config.json")
        return Checkpoint(path, config, {}), ["names in pickled weights need torch to be read"]
    return open_checkpoint(path), []


def _gguf(location: Location, path: Path) -> Description:
    facts = read_facts(path)

    def number(key: str) -> int | None:
        value = facts.metadata.get(f"{facts.architecture}.{key}")
        return value if isinstance(value, int) else None

    def token(key: str) -> str | None:
        i = facts.metadata.get(f"tokenizer.ggml.{key}_token_id")
        return facts.tokens[i] if isinstance(i, int) and i < len(facts.tokens) else None

    return Description(
        **_origin(location, path),
        architecture=facts.architecture,
        parameters=facts.parameters,
        layers=number("block_count"),
        hidden=number("embedding_length"),
        heads=number("attention.head_count"),
        kv_heads=number("attention.head_count_kv") or number("attention.head_count"),
        vocabulary_rows=number("vocab_size") or len(facts.tokens) or None,
        context=number("context_length"),
        dtypes=dict(facts.tensor_types),
        size_bytes=path.stat().st_size,
        tokens=len(facts.tokens) or None,
        bos=token("bos"),
        eos=token("eos"),
        chat_template=facts.chat_template is not None,
        weight_hash=weight_hash(path),
        notes=("converted to safetensors when loaded",),
    )


def _origin(location: Location, path: Path) -> dict[str, Any]:
    return {
        "name": location.name,
        "kind": location.kind,
        "source": location.source,
        "revision": location.revision,
        "path": str(path),
    }


def _first(config: Mapping[str, Any], *keys: str) -> int | None:
    return next((config[k] for k in keys if isinstance(config.get(k), int)), None)


def _token(value: object) -> str | None:
    """A special token is a string, or a mapping with its string under ``content``."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _count_tokens(tokenizer: Mapping[str, Any]) -> int | None:
    """Real ids in a tokenizer.json: of the vocabulary (a mapping or a list) and added tokens."""
    model = tokenizer.get("model")
    vocabulary = model.get("vocab") if isinstance(model, Mapping) else None
    if not isinstance(vocabulary, (dict, list)):
        return None
    ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
    added = tokenizer.get("added_tokens")
    more = [t.get("id") for t in added if isinstance(t, Mapping)] if isinstance(added, list) else []
    return len({*ids, *more})

"""What a model is, from its files alone: no weights are loaded and torch is not needed."""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.folder import check_folder, read_record
from specbench.models.gguf_tokenizer import read_facts
from specbench.models.locate import Location
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

    def to_json(self) -> dict[str, object]:
        """The fields as JSON values."""
        return asdict(self)


def describe(location: Location) -> Description:
    """Describe a located model.

    Raises:
        PrerequisiteError: a hub model that is not on this disk, or a damaged file.
    """
    if location.path is None:
        raise PrerequisiteError(
            f"{location.name} is not on this disk", f"type: specbench models fetch {location.name}"
        )
    if location.path.is_file():
        return _gguf(location, location.path)
    return _folder(location, location.path)


def _folder(location: Location, path: Path) -> Description:
    config = _json(path / "config.json")
    text = config.get("text_config") or config
    weights = check_folder(path, allow_pickle=True, needs_tokenizer=False)
    tensors = [t for file in weights if file.suffix == ".safetensors" for t in _tensors(file)]
    tokenizer = _json(path / "tokenizer_config.json")
    record = read_record(path) or {}
    notes = record.get("tokenizer_notes")
    return Description(
        **_origin(location, path),
        architecture=next(iter(config.get("architectures") or ()), config.get("model_type")),
        parameters=sum(prod(t["shape"]) for t in tensors),
        layers=_first(text, "num_hidden_layers", "n_layer"),
        hidden=_first(text, "hidden_size", "n_embd"),
        heads=_first(text, "num_attention_heads", "n_head"),
        kv_heads=_first(text, "num_key_value_heads", "num_attention_heads", "n_head"),
        vocabulary_rows=_first(text, "vocab_size"),
        context=_first(text, "max_position_embeddings", "n_positions"),
        dtypes=dict(Counter(t["dtype"] for t in tensors)),
        size_bytes=sum(file.stat().st_size for file in weights),
        tokens=_count_tokens(_json(path / "tokenizer.json")),
        bos=_token(tokenizer.get("bos_token")),
        eos=_token(tokenizer.get("eos_token")),
        chat_template="chat_template" in tokenizer
        or (path / "chat_template.jinja").is_file()
        or (path / "chat_template.json").is_file(),
        weight_hash=weight_hash(path),
        notes=tuple(notes) if isinstance(notes, list) else (),
    )


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


def _tensors(file: Path) -> Iterable[Mapping[str, Any]]:
    """Entries of a safetensors header: 8 bytes of length (little endian), then JSON."""
    with file.open("rb") as stream:
        start = stream.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
        if not 0 <= length <= file.stat().st_size - 8:
            raise PrerequisiteError(f"{file} is not a safetensors file", "fetch it again")
        header = json.loads(stream.read(length))
    return [entry for name, entry in header.items() if name != "__metadata__"]


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise PrerequisiteError(f"{path} is not JSON: {error}", "fetch the model again") from None
    return value if isinstance(value, dict) else {}


def _first(config: Mapping[str, Any], *keys: str) -> int | None:
    return next((config[k] for k in keys if isinstance(config.get(k), int)), None)


def _token(value: object) -> str | None:
    """A special token is a string, or a mapping with its string under ``content``."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _count_tokens(tokenizer: Mapping[str, Any]) -> int | None:
    """Real ids in a tokenizer.json: of the vocabulary (a mapping or a list) and added tokens."""
    vocabulary = tokenizer.get("model", {}).get("vocab")
    if vocabulary is None:
        return None
    ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
    return len({*ids, *(t["id"] for t in tokenizer.get("added_tokens", ()))})

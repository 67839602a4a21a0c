"""The tokenizer inside a GGUF file: built by transformers, repaired where it must be, checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError

CONTROL = 3
"""Token type of control tokens in GGUF (llama.cpp: LLAMA_TOKEN_TYPE_CONTROL)."""

ROUND_TRIP = "Hello, world! def f(x):\n    return  x + 1234\n\n  ÿ 你好 🙂"


@dataclass(frozen=True, slots=True)
class GgufFacts:
    """Metadata of a GGUF file that the conversion and its checks need."""

    architecture: str
    name: str
    tokens: tuple[str, ...]
    control_ids: tuple[int, ...]
    tokenizer_model: str
    pre_tokenizer: str
    add_bos: bool | None
    chat_template: str | None
    tensor_types: Mapping[str, int]
    parameters: int
    metadata: Mapping[str, object]
    """All short metadata values, by GGUF key."""


def read_facts(gguf_path: Path) -> GgufFacts:
    """Read a GGUF file's metadata, not its tensors.

    Raises:
        PrerequisiteError: the ``gguf`` package is missing or the file is not GGUF.
    """
    try:
        from gguf import GGUFReader
    except ImportError:
        raise PrerequisiteError(
            "reading GGUF files needs gguf", "type: pip install 'specbench-llm[native]'"
        ) from None
    try:
        reader = GGUFReader(gguf_path)
    except (ValueError, IndexError, KeyError) as error:
        raise PrerequisiteError(
            f"{gguf_path} is not a readable GGUF file: {error}", "download the file again"
        ) from None
    values: dict[str, Any] = {key: field.contents() for key, field in reader.fields.items()}
    types = values.get("tokenizer.ggml.token_type", [])
    add_bos = values.get("tokenizer.ggml.add_bos_token")
    return GgufFacts(
        architecture=values["general.architecture"],
        name=values.get("general.name", ""),
        tokens=tuple(values.get("tokenizer.ggml.tokens", ())),
        control_ids=tuple(i for i, kind in enumerate(types) if kind == CONTROL),
        tokenizer_model=values.get("tokenizer.ggml.model", ""),
        pre_tokenizer=values.get("tokenizer.ggml.pre", ""),
        add_bos=None if add_bos is None else bool(add_bos),
        chat_template=values.get("tokenizer.chat_template"),
        tensor_types=Counter(t.tensor_type.name for t in reader.tensors),
        parameters=sum(int(t.n_elements) for t in reader.tensors),
        metadata={k: v for k, v in values.items() if not isinstance(v, list)},
    )


def build_tokenizer(gguf_path: Path, facts: GgufFacts, out: Path) -> list[str]:
    """Save the file's tokenizer into ``out``, read it back and check it.

    Returns what is odd but usable, one sentence each, for the record.

    Raises:
        PrerequisiteError: an id has another string than in the file, or a control token is not
            encoded as its one id.
    """
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(
        str(gguf_path.parent), gguf_file=gguf_path.name, local_files_only=True
    )
    odd = _restore_pre_tokenizer(tokenizer, facts)
    if facts.chat_template:
        tokenizer.chat_template = facts.chat_template
    for remnant in ("is_local", "local_files_only"):
        tokenizer.init_kwargs.pop(remnant, None)
    tokenizer.save_pretrained(out)
    saved = AutoTokenizer.from_pretrained(str(out), local_files_only=True)
    _check_vocabulary(saved, facts, gguf_path.name)
    return odd + _oddities(saved, facts)


def _restore_pre_tokenizer(tokenizer: Any, facts: GgufFacts) -> list[str]:
    """SmolLM splits off every digit before the GPT-2 pattern; transformers drops that stage.

    Without it "x   7" becomes other tokens than the ones the model was trained on.
    """
    if facts.tokenizer_model != "gpt2":
        return []
    if facts.pre_tokenizer != "smollm":
        return [f"pre-tokenizer {facts.pre_tokenizer!r} as transformers builds it"]
    from tokenizers import pre_tokenizers

    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    return ["pre-tokenizer 'smollm' restored: single digits, then the GPT-2 pattern"]


def _check_vocabulary(tokenizer: Any, facts: GgufFacts, name: str) -> None:
    by_id = {i: token for token, i in tokenizer.get_vocab().items()}
    for i, token in enumerate(facts.tokens):
        if by_id.get(i) != token:
            raise PrerequisiteError(
                f"tokenizer of {name}: id {i} is {by_id.get(i)!r}, but the file says {token!r}",
                "use the model's safetensors folder instead",
            )
    for i in facts.control_ids:
        ids = tokenizer.encode(facts.tokens[i], add_special_tokens=False)
        if ids != [i]:
            raise PrerequisiteError(
                f"tokenizer of {name}: {facts.tokens[i]!r} is encoded as {ids}, not as id {i}",
                "use the model's safetensors folder instead",
            )


def _oddities(tokenizer: Any, facts: GgufFacts) -> list[str]:
    odd = []
    extra = len(tokenizer.get_vocab()) - len(facts.tokens)
    if extra:
        odd.append(f"{extra} tokens more than in the file")
    ids = tokenizer.encode(ROUND_TRIP, add_special_tokens=False)
    if tokenizer.decode(ids, clean_up_tokenization_spaces=False) != ROUND_TRIP:
        odd.append("text does not survive encode and decode unchanged")
    adds_bos = tokenizer.encode("a")[:1] == [tokenizer.bos_token_id]
    if facts.add_bos is not None and adds_bos != facts.add_bos:
        odd.append(f"adds a BOS token: {adds_bos}, the file says {facts.add_bos}")
    if tokenizer.eos_token_id is None:
        odd.append("no EOS token")
    if not tokenizer.chat_template:
        odd.append("no chat template")
    return odd

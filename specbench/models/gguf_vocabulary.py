"""A folder's tokenizer as the keys that a GGUF file stores one under."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench.errors import PrerequisiteError
from specbench.models.gguf_tokenizer import CONTROL

NORMAL = 1
USER_DEFINED = 4
UNUSED = 5
"""Token types of GGUF, with ``CONTROL`` (llama.cpp: LLAMA_TOKEN_TYPE_*)."""

_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
_DIGITS = {"type": "Digits", "individual_digits": True}
_STAGES = {
    "smollm": [_DIGITS, _BYTES],
    "gpt-2": [_BYTES],
}
"""Pre-tokenizers that llama.cpp has a name for and that are told by their stages alone."""


@dataclass(frozen=True, slots=True)
class GgufVocabulary:
    """``tokens``, ``types`` and ``merges`` in GGUF's form; ids are positions in ``tokens``."""

    pre: str
    tokens: list[str]
    types: list[int]
    merges: list[str]


def gguf_vocabulary(folder: Path, rows: int) -> GgufVocabulary:
    """Read ``tokenizer.json``: byte-level BPE, as GPT-2 or SmolLM split text before it.

    Args:
        folder: the model's.
        rows: of the embedding; rows without a token get the names that llama.cpp's converter
            gives them.

    Raises:
        PrerequisiteError: no such file, or a tokenizer of another kind.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise _refused(folder, "it has no tokenizer.json")
    content = json.loads(path.read_text())
    if content["model"]["type"] != "BPE":
        raise _refused(folder, f"its tokenizer is {content['model']['type']}, not byte-level BPE")
    if content.get("normalizer"):
        raise _refused(folder, f"its tokenizer normalises text: {content['normalizer']['type']}")
    ids: dict[int, tuple[str, int]] = {
        i: (token, NORMAL) for token, i in content["model"]["vocab"].items()
    }
    for added in content.get("added_tokens", ()):
        kind = CONTROL if added["special"] else USER_DEFINED
        ids[added["id"]] = (added["content"], kind)
    if max(ids) >= rows:
        raise _refused(folder, f"its tokenizer has id {max(ids)}, its embedding {rows} rows")
    known = [ids.get(i, (f"[PAD{i}]", UNUSED)) for i in range(rows)]
    return GgufVocabulary(
        _pre(folder, content.get("pre_tokenizer")),
        [token for token, _ in known],
        [kind for _, kind in known],
        [m if isinstance(m, str) else " ".join(m) for m in content["model"]["merges"]],
    )


def _pre(folder: Path, pre: dict[str, Any] | None) -> str:
    stages = (pre or {}).get("pretokenizers", [pre] if pre else [])
    # How offsets are trimmed changes no token.
    shown = [{k: v for k, v in stage.items() if k != "trim_offsets"} for stage in stages]
    for name, wanted in _STAGES.items():
        if shown == wanted:
            return name
    kinds = ", ".join(stage["type"] for stage in stages) or "nothing"
    raise _refused(folder, f"its pre-tokenizer is {kinds}")


def _refused(folder: Path, why: str) -> PrerequisiteError:
    return PrerequisiteError(
        f"{folder} cannot be written as GGUF here: {why}",
        "convert it with convert_hf_to_gguf.py of llama.cpp (--outtype f32)",
    )

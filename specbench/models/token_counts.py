"""How many tokens texts have, from a model's ``tokenizer.json`` alone: no torch, no template."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from specbench.models.folder import TOKENIZER_FILES

CHARACTERS = 4
"""Of a token, where a folder has no ``tokenizer.json``: about, for English."""


def counts(folder: Path, texts: Sequence[str]) -> tuple[list[int], bool]:
    """Tokens of each text without special ones, and whether they were counted or are a guess."""
    file = folder / TOKENIZER_FILES[0]
    if file.is_file():
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_file(str(file))
        except Exception:  # the package raises nothing narrower; loading will say what is wrong
            pass
        else:
            found = tokenizer.encode_batch(list(texts), add_special_tokens=False)
            return [len(one.ids) for one in found], True
    return [-(-len(text) // CHARACTERS) for text in texts], False

"""Where Python stands in a text: fenced blocks and bare code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_FENCE = re.compile(
    r"^([ \t]*)(`{3,}|~{3,})[^\n`]*\n(.*?)(^[ \t]*\2[ \t]*$|\Z)", re.DOTALL | re.MULTILINE
)
_FENCE_LINE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n`]*(?:\n|\Z)", re.MULTILINE)
_CODE_LINE = re.compile(
    r"from\s+[\w.]+\s+import\b|import\s+\w|(?:async\s+)?def\s+\w|class\s+\w|@\w"
    r"|\w+\s*(?::[^=\n]+)?=\s"
)


@dataclass(frozen=True, slots=True)
class Block:
    """The content of one code fence; ``closed`` is false where the text ends inside it."""

    code: str
    closed: bool


def fenced(text: str) -> list[Block]:
    """The code fences of a text. The indentation of the fence itself is taken off its lines."""
    blocks = []
    for found in _FENCE.finditer(text):
        indent, _, code, end = found.groups()
        if indent:
            code = re.sub(rf"^[ \t]{{1,{len(indent)}}}", "", code, flags=re.MULTILINE)
        blocks.append(Block(code, closed=bool(end)))
    return blocks


def without_fences(text: str) -> str:
    """The text without the lines that open or close a fence."""
    return _FENCE_LINE.sub("", text)


def bare(text: str) -> Iterator[str]:
    """The rest of the text from each unindented line that looks like code, first to last."""
    lines = text.split("\n")
    for start, line in enumerate(lines):
        if _CODE_LINE.match(line):
            yield "\n".join(lines[start:])

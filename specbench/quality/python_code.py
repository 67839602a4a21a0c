"""From an answer to a program that tests it (case G4).

An answer may hold the whole function or only its body, in a fence or bare, with prose around it.
Both arms go through the same steps, so equal texts give equal programs.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence

from specbench.core.suite import Scoring
from specbench.quality.answers import until_stop
from specbench.quality.python_blocks import Block, bare, fenced, without_fences
from specbench.quality.python_statements import (
    Kind,
    Statement,
    defined,
    longest,
    parse,
    statements,
)

Code = list[Statement]


def program(text: str, conversation: Sequence[str], scoring: Scoring) -> str | None:
    """The answer's code with what it leans on and the tests of the prompt, as one program.

    1. The text ends at the earliest stop word.
    2. The function is looked for in the fences, the last complete one first (a repaired version
       stands below the quoted broken one), then in the bare text.
    3. Where it is nowhere, the text is taken for its body and put below the header that the
       prompt gives.
    4. Of what follows the function only imports and definitions are kept: examples of its use are
       no part of the answer.
    5. Imports and definitions of the prompt and of the answer's other fences go above, where the
       answer does not define the same name.

    Args:
        text: the answer.
        conversation: what the user said, one text per turn; holds the header.
        scoring: of kind ``python``.

    Returns:
        Source text that raises AssertionError where the answer is wrong, or None where the answer
        holds no code that defines the function.
    """
    text = re.sub("\r\n?", "\n", until_stop(text))
    name = scoring.entry_point
    blocks = fenced(text)
    found = _function(text, blocks, name) or _completed(text, blocks, conversation, name)
    if found is None:
        return None
    taken, code = found
    others = [statements(block.code) or [] for block in blocks if block.code != taken]
    context = _context([*_asked(conversation, name), *others], defined(code))
    futures = [statement for statement in code if statement.kind is Kind.FUTURE]
    rest = [statement for statement in code if statement.kind is not Kind.FUTURE]
    parts = [statement.text for statement in (*futures, *context, *rest)]
    return "\n".join([*parts, "", scoring.tests])


def completion(text: str) -> str:
    """The body of a function at the start of a text: it ends at the next unindented line.

    That is where every stop word of HumanEval (Chen et al. 2021, section 2.1) cuts. Leading
    spaces stay; fences around the body go.
    """
    kept: list[str] = []
    for line in without_fences(until_stop(text)).split("\n"):
        if any(map(str.strip, kept)) and line.strip() and not line[0].isspace():
            break
        kept.append(line)
    return "\n".join(kept).strip("\n").rstrip()


def header(conversation: Sequence[str], name: str) -> str | None:
    """Signature and docstring of a function, from the latest turn that shows it; None if none."""
    start = re.compile(rf"(?:async\s+)?def\s+{re.escape(name)}\b")
    for turn in reversed(conversation):
        lines = without_fences(turn).split("\n")
        first = next((index for index, line in enumerate(lines) if start.match(line)), None)
        if first is None:
            continue
        end = first + 1
        while end < len(lines) and (not lines[end].strip() or lines[end][0] in " \t)"):
            end += 1
        return _until_body(lines[first:end])
    return None


def _until_body(lines: Sequence[str]) -> str | None:
    """A function's lines down to its first statement that is no docstring."""
    code = "\n".join(lines).rstrip()
    tree = parse(code) or parse(f"{code}\n    pass")
    function = tree.body[0] if tree is not None else None
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    body = function.body if ast.get_docstring(function) is None else function.body[1:]
    end = body[0].lineno - 1 if body else len(lines)
    return "\n".join(lines[:end]).rstrip() or None


def _function(text: str, blocks: Sequence[Block], name: str) -> tuple[str, Code] | None:
    """The piece of the answer that defines the function, and its statements."""
    latest = list(reversed(blocks))
    for block in latest:
        whole = statements(block.code) if block.closed else None
        if whole is not None and name in defined(whole):
            return block.code, _trimmed(whole, name)
    for piece in (*(block.code for block in latest), *bare(text)):
        found = longest(piece, name)
        if found is not None:
            return piece, _trimmed(found, name)
    return None


def _completed(
    text: str, blocks: Sequence[Block], conversation: Sequence[str], name: str
) -> tuple[str, Code] | None:
    start = header(conversation, name)
    if start is None:
        return None
    piece = blocks[0].code if blocks else text
    # A header with a docstring parses by itself: the answer must have made the function longer.
    best, lines = None, len(start.split("\n"))
    for body in _bodies(piece):
        found = longest(f"{start}\n{body}", name)
        if found is not None and (size := found[0].text.count("\n") + 1) > lines:
            best, lines = found, size
    return None if best is None else (piece, _trimmed(best, name))


def _bodies(piece: str) -> Iterator[str]:
    """Readings of a body.

    As it stands; or, where its first line is not indented, that line alone or every line has lost
    its indentation. The reading that makes the longest function is right.
    """
    body = completion(piece)
    if body[:1].isspace():
        yield body
    else:
        yield completion(f"    {piece.lstrip()}")
        yield textwrap.indent(without_fences(piece), "    ")


def _trimmed(code: Code, name: str) -> Code:
    last = max(index for index, statement in enumerate(code) if name in statement.names)
    kinds = (Kind.IMPORT, Kind.DEFINITION)
    return [*code[: last + 1], *(later for later in code[last + 1 :] if later.kind in kinds)]


def _asked(conversation: Sequence[str], name: str) -> Iterator[Code]:
    """The code that the user showed: fences, or the bare function with what stands above it."""
    for turn in conversation:
        blocks = fenced(turn)
        for block in blocks:
            yield statements(block.code) or []
        pieces = (longest(piece, name) for piece in bare(turn) if not blocks)
        yield next((piece for piece in pieces if piece is not None), [])


def _context(pieces: Sequence[Code], own: set[str]) -> Code:
    """Imports, definitions and the constants above them, under names that ``own`` leaves open.

    Code without a function or class is no context: it is an example, or no Python at all.
    """
    kept: Code = []
    for code in pieces:
        kinds = [statement.kind for statement in code]
        first = kinds.index(Kind.DEFINITION) if Kind.DEFINITION in kinds else 0
        for index, statement in enumerate(code if first or Kind.DEFINITION in kinds else ()):
            constant = bool(statement.names) and index < first
            definition = statement.kind is Kind.DEFINITION or constant
            if statement.kind is Kind.IMPORT or (definition and not statement.names & own):
                kept.append(statement)
    return kept

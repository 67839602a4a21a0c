"""From the bytes of a .jsonl file to rows, and from a row to the bytes that enter the digest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from specbench.suites.findings import RowError

BOM = b"\xef\xbb\xbf"


def lines(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Non-blank lines as (line number, byte offset, bytes); only LF ends a line."""
    offset = len(BOM) if data.startswith(BOM) else 0
    for number, raw in enumerate(data[offset:].split(b"\n"), start=1):
        if raw.strip():
            yield number, offset, raw
        offset += len(raw) + 1


def utf8(raw: bytes, offset: int) -> str:
    """The bytes as text. Raises RowError with the place in the file where they are not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        at = error.start
        raise RowError(
            f"byte {offset + at} (0x{raw[at]:02x}) is not UTF-8; save the file as UTF-8"
        ) from error


def decode(raw: bytes, offset: int) -> dict[str, object]:
    """One line as a row. Raises RowError: not UTF-8, not JSON, a key twice, or no object."""
    try:
        row = json.loads(utf8(raw, offset), object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        what = str(error)
        if isinstance(error, json.JSONDecodeError):  # its own text would say "line 1"
            what = f"{error.msg} at column {error.colno}"
        raise RowError(f"not JSON: {what}; write one JSON object per line") from error
    if not isinstance(row, dict):
        raise RowError(f"{row!r:.80} is not an object; write {{...}} with id, category and turns")
    return row


def canonical_bytes(row: Mapping[str, object]) -> bytes:
    """The bytes of a row that enter the digest. Raises RowError on half a surrogate pair."""
    written = json.dumps(row, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    try:
        return f"{written}\n".encode()
    except UnicodeEncodeError as error:
        raise RowError(
            f"{written[error.start]!r} is half of a surrogate pair; write the whole character"
        ) from error


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    row = dict(pairs)
    if len(row) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise RowError(f"{twice}: the key is written twice; keep one")
    return row


def _refuse(constant: str) -> NoReturn:
    raise RowError(f"{constant} is not JSON; write a number or null")

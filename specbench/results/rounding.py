"""Does a derived file say what its traces give? Numbers may differ by rounding, words may not.

Long sums are added up in an order that depends on the processor, so that the last digits of an
interval made on one machine are not those of another. That is no difference in what was measured.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from itertools import zip_longest
from typing import Any

ROUNDING = 1e-9
"""Relative difference of numbers that orders of addition explain; of what is about 0, absolute."""
MOST_SHOWN = 60
"""Characters of a text that are shown."""

# A fraction that stands alone: counts, and digits of a hash or of a name, are compared as words.
_FRACTION = re.compile(r"(?<![\w.+-])(-?\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+))(?![\w.])")


def difference(there: str, derived: str, suffix: str) -> str:
    """Where a text first differs by more than rounding, with both contents; empty for nowhere.

    Args:
        there: what the file holds.
        derived: what its traces give.
        suffix: of the file: ``.csv`` for a table with names in its first row, ``.json`` for a
            document, anything else for lines.
    """
    if there == derived:
        return ""
    return {".csv": _cells, ".json": _documents}.get(suffix, _lines)(there, derived)


def _cells(there: str, derived: str) -> str:
    one, other = (list(csv.reader(io.StringIO(text))) for text in (there, derived))
    names = other[0]
    for number, (row, expected) in enumerate(zip(one, other, strict=False), start=1):
        for place, (cell, due) in enumerate(zip_longest(row, expected, fillvalue="")):
            if not _alike(cell, due):
                name = names[place] if place < len(names) else f"column {place + 1}"
                return f"row {number}, {name}: {_beside(cell, due)}"
    return _as_many(len(one), len(other), "rows")


def _documents(there: str, derived: str) -> str:
    try:
        found = json.loads(there)
    except ValueError as error:
        return f"no JSON: {error}"
    return _values(found, json.loads(derived), "")


def _values(one: Any, other: Any, place: str) -> str:
    if isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        pairs = [(f"{place}.{name}" if place else name, one[name], other[name]) for name in one]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [(f"{place}[{n}]", *both) for n, both in enumerate(zip(one, other, strict=True))]
    else:
        texts = [json.dumps(value, ensure_ascii=False) for value in (one, other)]
        return "" if _alike(*texts) else f"{place or 'all'}: {_beside(*texts)}"
    return next(filter(None, (_values(a, b, name) for name, a, b in pairs)), "")


def _lines(there: str, derived: str) -> str:
    one, other = (text.split("\n") for text in (there, derived))
    for number, (line, due) in enumerate(zip(one, other, strict=False), start=1):
        if not _alike(line, due):
            return f"line {number}: {_beside(line.strip(), due.strip())}"
    return _as_many(len(one), len(other), "lines")


def _as_many(there: int, due: int, what: str) -> str:
    return "" if there == due else f"{there} {what} in the file, {due} from the traces"


def _alike(text: str, due: str) -> bool:
    """Whether words are the same and fractions are so up to rounding."""
    if text == due:
        return True
    # Words and fractions by turns.
    parts = [_FRACTION.split(one) for one in (text, due)]
    if len(parts[0]) != len(parts[1]) or parts[0][::2] != parts[1][::2]:
        return False
    numbers = zip(parts[0][1::2], parts[1][1::2], strict=True)
    return all(
        math.isclose(float(one), float(other), rel_tol=ROUNDING, abs_tol=ROUNDING)
        for one, other in numbers
    )


def _beside(text: str, due: str) -> str:
    return f"{_shown(text)} in the file, {_shown(due)} from the traces"


def _shown(text: str) -> str:
    if not text:
        return "nothing"
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 1]}…"
